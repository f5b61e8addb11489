"""`geoact list`: which runs, in which order, and how they are shown."""

import json

import pytest

from geoact.cli import main
from tests.commands.conftest import make_run

LONG = "a-very-long-name-of-a-run-that-no-table-would-have-room-for" * 3


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
def test_what_is_listed(words, names, folder, capsys, listed):
    assert listed(folder, *words) == list(names)


def test_the_newest_first(folder, capsys, listed):
    for name, day in zip("abcd", (3, 1, 4, 2)):
        path = folder / name / "run.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"created": f"2025-01-0{day}T00:00:00Z"}))
    assert listed(folder, "--sort", "time") == list("cadb")


def test_names_are_never_cut(folder, capsys):
    make_run(folder, LONG)
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


def test_nothing_to_list(tmp_path, folder, capsys, listed):
    assert main(["list", "--runs-dir", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"no runs in {tmp_path}: geoact train makes one\n"
    assert main(["list", "--runs-dir", str(folder), "--env", "Ant-v5"]) == 0
    assert "none fits" in capsys.readouterr().out
    assert listed(tmp_path) == []
