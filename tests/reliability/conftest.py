"""The toys are importable by name in this process too; compiled programs are shared by all of a session's runs."""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True, scope="session")
def _shared_compilation_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    os.environ.setdefault("GEOACT_CACHE", str(tmp_path_factory.mktemp("cache")))
