"""Deleting runs: what a kill leaves behind is no run, and what is trained stays."""

from pathlib import Path

import pytest

from geoact.config import RunConfig, defaults
from geoact.errors import InputError
from geoact.storage import removal
from geoact.storage.runs import Run, create_at, find_runs


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in "ab":
        config = RunConfig(env="Hopper-v5", algorithm="gac", settings=defaults("gac"), timesteps=100)
        create_at(tmp_path / name, config)
    return tmp_path


def test_killed_while_deleting(folder, monkeypatch):
    """What a kill leaves behind is no run, and the next deletion takes it along."""

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(removal.shutil, "rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            removal.delete(folder / "a")
    assert [run.path.name for run in find_runs(folder)] == ["b"]
    removal.delete(folder / "b")
    assert list(folder.iterdir()) == []


def test_what_is_trained_or_no_run_is_refused(folder):
    lock = Run(folder / "a").lock()
    with pytest.raises(InputError, match="is being trained: stop it first"):
        removal.delete(folder / "a")
    lock.release()
    with pytest.raises(InputError, match="is not a run"):
        removal.check(folder)
    assert removal.check(folder / "a") == folder / "a"


def test_size_counts_what_is_there_and_not_what_a_link_points_to(folder):
    before = removal.size(folder / "a")
    (folder / "a" / "checkpoints").mkdir()
    (folder / "a" / "checkpoints" / "rows").write_bytes(bytes(1000))
    assert removal.size(folder / "a") == before + 1000
    (folder / "link").symlink_to(folder / "a")
    assert removal.size(folder / "link") == 0
