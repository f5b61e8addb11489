"""What several files compare their runs with."""

import pytest

from geoact.storage.runs import Run
from tests.training.run_cases import config, run_of
from tests.training_cases import fingerprint, start


@pytest.fixture(scope="package")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, str]:
    """A run in one piece, and its fingerprint."""
    with start(config(), tmp_path_factory.mktemp("whole")) as session:
        assert session.train()
    return run_of(session), fingerprint(session)
