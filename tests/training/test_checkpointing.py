"""When a run is saved, and what it goes back to."""

import json
from typing import Any

import pytest

from geoact.errors import InputError
from geoact.training import checkpointing, resuming
from tests.training.run_cases import config, folders, run_of
from tests.training_cases import start


def test_checkpoints_can_be_left_out(tmp_path):
    with start(config(40, evaluations=0, keep_checkpoints=False), tmp_path) as session:
        assert session.train()
    assert folders(run_of(session)) == []
    with pytest.raises(InputError, match="its checkpoints were not kept"):
        resuming.resume(run_of(session).path)


@pytest.mark.parametrize(("first", "minutes", "expected"), [(1e-9, 5.0, 2), (1e9, 5.0, 40), (1e-9, 0.0, 40)])
def test_trust_09_the_first_checkpoint_does_not_wait_for_the_usual_interval(
    first, minutes, expected, tmp_path, monkeypatch
):
    assert checkpointing.FIRST_CHECKPOINT <= 60.0
    monkeypatch.setattr(checkpointing, "FIRST_CHECKPOINT", first)
    written: list[int] = []
    with start(config(40, evaluations=0, checkpoint_minutes=minutes), tmp_path) as session:
        assert session.checkpointing is not None
        files = session.checkpointing._files
        plain = files.write

        def write(step: int, *arguments: Any) -> None:
            written.append(step)
            plain(step, *arguments)

        files.write = write  # type: ignore[method-assign]
        assert session.train()
    assert written[0] == expected
    assert written[-1] == 40 and len(written) == (2 if expected == 2 else 1)  # then the interval, and the end


def test_a_checkpoint_of_another_configuration_is_refused(tmp_path):
    with start(config(40), tmp_path) as session:
        assert session.train()
    path = run_of(session).path / "run.json"
    data = json.loads(path.read_text())
    data["config"]["settings"]["critic"]["count"] = 3
    path.write_text(json.dumps(data))
    with pytest.raises(InputError, match=r"no array .*members\.2"):
        resuming.resume(path.parent, say=lambda line: None)
    assert not run_of(session).locked()
