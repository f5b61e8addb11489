"""Run directories: found however they lie there, told truthfully, and never ended by what lies beside their files."""

import os
from pathlib import Path

import pytest

from geoact import runtime
from geoact.config import RunConfig, defaults
from geoact.errors import FileFormatError, InputError
from geoact.storage import runs
from geoact.storage.runs import Run, create_at, find_runs

ZOO = next(iter(runtime.zoo().values()))


def make(path: Path) -> Run:
    return create_at(path, RunConfig(env="Hopper-v5", algorithm="gac", settings=defaults("gac")))


def test_trust_06_linked_runs_are_found(tmp_path):
    make(tmp_path / "elsewhere" / "b")
    make(tmp_path / "runs" / "a")
    (tmp_path / "runs" / "b").symlink_to(tmp_path / "elsewhere" / "b")
    (tmp_path / "runs" / "c").symlink_to(tmp_path / "nowhere")
    (tmp_path / "runs" / "d").symlink_to(tmp_path / "runs" / "d")
    assert [run.path.name for run in find_runs(tmp_path / "runs")] == ["a", "b"]


def test_trust_06_a_run_that_nobody_trains_is_interrupted(tmp_path):
    run = make(tmp_path)
    lock = run.lock()
    assert run.state() == "running"
    lock.release()
    assert run.state() == "interrupted"
    run.set_status("finished", 10, 10)
    assert run.state() == "finished"


def forbid(monkeypatch: pytest.MonkeyPatch, forbidden: Path) -> None:
    """A folder that may not be read, also by root."""
    real_stat, real_open, real_scandir = os.stat, open, os.listdir

    def check(path: object) -> None:
        if isinstance(path, (str, Path)) and forbidden in [Path(path), *Path(path).parents]:
            raise PermissionError(13, "Permission denied", str(path))

    def stat(path, *args, **kwargs):
        if path != forbidden:
            check(path)
        return real_stat(path, *args, **kwargs)

    def listdir(path="."):
        check(path)
        return real_scandir(path)

    monkeypatch.setattr(os, "stat", stat)
    monkeypatch.setattr(os, "listdir", listdir)
    monkeypatch.setattr(
        "io.open", lambda file, *args, **more: (check(file), real_open(file, *args, **more))[1]
    )


def test_trust_21_one_unreadable_folder_does_not_hide_the_others(tmp_path, monkeypatch):
    for name in "abc":
        make(tmp_path / name)
    forbid(monkeypatch, tmp_path / "b")
    assert [run.path.name for run in find_runs(tmp_path)] == ["a", "c"]
    with pytest.raises(FileFormatError, match="may not be read"):
        Run(tmp_path / "b").config()


def test_trust_21_a_folder_of_runs_that_may_not_be_read_is_one_sentence(tmp_path, monkeypatch):
    forbid(monkeypatch, tmp_path)
    with pytest.raises(InputError, match="cannot be read: permission denied"):
        list(find_runs(tmp_path))


def test_trust_07_saving_a_policy_survives_what_lies_beside_it(tmp_path):
    run, policy = make(tmp_path), runtime.load(ZOO)
    run.save_policy(policy, best=True)
    for folder in (run.policy_path, run.best_path):
        (folder / "play.gif").write_text("film")
        (folder / "notes").mkdir()
    run.save_policy(policy, best=True)
    for folder in (run.policy_path, run.best_path):
        names = sorted(p.name for p in folder.iterdir())
        assert names == ["notes", "play.gif", "policy.json", "policy.safetensors"]
        assert runtime.load(folder).spec == policy.spec
    assert not [p for p in run.path.iterdir() if p.name.startswith(".")]


def test_trust_07_a_policy_is_saved_where_something_else_stands(tmp_path):
    run, policy = make(tmp_path), runtime.load(ZOO)
    run.policy_path.write_text("a file of that name")
    run.save_policy(policy, best=False)
    assert runtime.load(run.path).spec == policy.spec


def test_the_same_run_is_the_same_but_for_its_checkpoints():
    one = RunConfig(env="Hopper-v5", algorithm="gac", settings=defaults("gac"))
    other = RunConfig(env="Hopper-v5", algorithm="gac", settings=defaults("gac"), checkpoint_steps=10)
    assert runs.identity(one) == runs.identity(other)
