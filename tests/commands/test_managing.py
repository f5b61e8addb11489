"""`geoact list`, `tag` and `delete`: what there is, what was noted about it, and getting rid of it."""

import json
import shutil
from pathlib import Path

import pytest

from geoact.cli import main
from geoact.commands import _console
from geoact.config import RunConfig, defaults
from geoact.storage import notes, removal
from geoact.storage.runs import Run, create_at

LONG = "a-very-long-name-of-a-run-that-no-table-would-have-room-for" * 3


def make(
    folder: Path,
    name: str,
    env: str = "Hopper-v5",
    algorithm: str = "gac",
    done: int = 100,
    best: float | None = 1.0,
) -> Run:
    config = RunConfig(env=env, algorithm=algorithm, settings=defaults(algorithm), timesteps=100)
    run = create_at(folder / name, config)
    run.set_status("finished" if done == 100 else "stopped", done, 100)
    if best is not None:
        rows = [{"step": 50, "eval/return_mean": best - 1}, {"step": 80, "eval/return_mean": best}]
        (run.path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return run


@pytest.fixture
def folder(tmp_path) -> Path:
    runs = tmp_path / "runs"
    make(runs, "b", best=2.0)
    make(runs, "a", best=3.0, done=40)
    make(runs, "c", env="dm_control/walker-run", algorithm="sac", best=None)
    make(runs, "d", env="walker-run", algorithm="sac", best=700.0, done=10)
    notes.write(runs / "b", notes.Notes(("good", "paper"), "look at this"))
    (runs / "not-a-run").mkdir()
    return runs


def listed(capsys, folder: Path, *words: str) -> list[str]:
    assert main(["list", "--runs-dir", str(folder), "--json", *words]) == 0
    return [run["run"] for run in json.loads(capsys.readouterr().out)]


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ([], "abcd"),
        (["--sort", "best"], "dabc"),
        (["--sort", "progress"], "bcad"),
        (["--env", "Hopper-v5"], "ab"),
        (["--env", "walker-run"], "cd"),
        (["--env", "dm_control/walker-run", "--state", "finished"], "c"),
        (["--algorithm", "gac", "--state", "stopped"], "a"),
        (["--tag", "good"], "b"),
        (["--tag", "good", "--tag", "paper"], "b"),
        (["--tag", "good", "--tag", "other"], ""),
        (["--best"], "ad"),
        (["--best", "--algorithm", "sac"], "d"),
        (["--best", "--sort", "best"], "da"),
    ],
)
def test_what_is_listed(words, names, folder, capsys):
    assert listed(capsys, folder, *words) == list(names)


def test_the_newest_first(folder, capsys):
    for name, day in zip("abcd", (3, 1, 4, 2)):
        path = folder / name / "run.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"created": f"2025-01-0{day}T00:00:00Z"}))
    assert listed(capsys, folder, "--sort", "time") == list("cadb")


def test_names_are_never_cut(folder, capsys):
    make(folder, LONG)
    assert main(["list", "--runs-dir", str(folder)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["run", "state", "progress", "best", "evaluation", "at", "tags", "note"]
    assert any(line.startswith(f"{LONG}  finished") for line in lines)
    assert next(line for line in lines if line.startswith("b ")).split()[1:] == [
        *("finished", "100%", "2.0", "80", "good,paper", "look", "at", "this")
    ]
    assert len({line.index(" finished ") for line in lines if " finished " in line}) == 1, (
        "columns are aligned"
    )
    assert not any("\t" in line or line.endswith(" ") for line in lines)


def test_a_damaged_run_is_named_and_ends_nothing(folder, capsys):
    (folder / "c" / "run.json").write_text("{")
    (folder / "d" / "notes.json").write_text("[]")
    (folder / "a" / "metrics.jsonl").write_text(
        '{"step": 1, "eval/return_mean": "many"}\n{"eval/return_mean": 2}\n'
    )
    assert main(["list", "--runs-dir", str(folder)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [
        ["a", "damaged"],
        ["b", "finished"],
        ["c", "damaged"],
        ["d", "damaged"],
    ]


def test_nothing_to_list(tmp_path, folder, capsys):
    assert main(["list", "--runs-dir", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"no runs in {tmp_path}: geoact train makes one\n"
    assert main(["list", "--runs-dir", str(folder), "--env", "Ant-v5"]) == 0
    assert "none fits" in capsys.readouterr().out
    assert listed(capsys, tmp_path) == []


def test_tag(folder, capsys):
    where = ["--runs-dir", str(folder)]
    assert main(["tag", "a", *where]) == 0
    assert capsys.readouterr().out == "tags: none\n"
    assert not (folder / "a" / "notes.json").exists()
    assert main(["tag", str(folder / "a"), "--add", "x", "--add", "y", "--note", "why not"]) == 0
    assert capsys.readouterr().out == "tags: x, y\nnote: why not\n"
    assert main(["tag", "a", *where, "--remove", "x", "--add", "y"]) == 0
    assert notes.read(folder / "a") == notes.Notes(("y",), "why not")
    assert main(["tag", "a", *where, "--note", ""]) == 0
    assert notes.read(folder / "a") == notes.Notes(("y",), "")
    assert main(["tag", "a", *where, "--add", "b,c"]) == 2
    assert notes.read(folder / "a").tags == ("y",)


def test_delete(folder, capsys):
    assert main(["delete", "a", str(folder / "b"), "--runs-dir", str(folder), "--yes"]) == 0
    assert capsys.readouterr().out.splitlines() == [f"deleted: {folder / name}" for name in "ab"]
    assert sorted(path.name for path in folder.iterdir()) == ["c", "d", "not-a-run"]


def test_nothing_is_deleted_where_one_cannot_be(folder, capsys):
    assert main(["delete", str(folder / "a"), str(folder / "not-a-run"), "--yes"]) == 2
    assert "is not a run" in capsys.readouterr().err
    lock = Run(folder / "b").lock()
    try:
        assert main(["delete", str(folder / "a"), str(folder / "b"), "--yes"]) == 2
    finally:
        lock.release()
    assert "is being trained" in capsys.readouterr().err
    assert {"a", "b", "c", "d"} <= {path.name for path in folder.iterdir()}


def test_delete_asks(folder, capsys, monkeypatch):
    monkeypatch.setattr("geoact.commands.delete.on_terminal", lambda: False)
    assert main(["delete", str(folder / "a")]) == 2
    assert "add --yes" in capsys.readouterr().err
    monkeypatch.setattr("geoact.commands.delete.on_terminal", lambda: True)
    monkeypatch.setattr(_console, "on_terminal", lambda: True)
    asked = []
    monkeypatch.setattr("builtins.input", lambda question: asked.append(question) or "n")
    assert main(["delete", str(folder / "a")]) == 0
    assert str(folder / "a") in asked[0] and (folder / "a").exists()
    monkeypatch.setattr("builtins.input", lambda _: "y")
    assert main(["delete", str(folder / "a")]) == 0
    assert not (folder / "a").exists()


def test_of_a_link_only_the_link_goes(folder, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    shutil.move(folder / "a", elsewhere)
    (folder / "a").symlink_to(elsewhere)
    assert main(["delete", str(folder / "a"), "--yes"]) == 0
    assert not (folder / "a").is_symlink() and (elsewhere / "run.json").exists()


def test_killed_while_deleting(folder, monkeypatch, capsys):
    """What a kill leaves behind is no run, and the next deletion takes it along."""

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(removal.shutil, "rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            removal.delete(folder / "a")
    assert listed(capsys, folder) == list("bcd")
    removal.delete(folder / "b")
    assert sorted(path.name for path in folder.iterdir()) == ["c", "d", "not-a-run"]


def test_summaries_of_finished_runs(folder, tmp_path, capsys):
    out = tmp_path / "summaries"
    assert main(["summarize", "--runs-dir", str(folder), "--out", str(out)]) == 0
    told = capsys.readouterr()
    assert f"{out}: 2 summaries" in told.out and "left out a: stopped" in told.err
    assert sorted(path.name for path in out.iterdir() if path.is_dir()) == ["b", "c"]
    assert listed(capsys, out) == ["b", "c"]
    assert main(["summarize", "--runs-dir", str(folder), "--out", str(folder)]) == 2
