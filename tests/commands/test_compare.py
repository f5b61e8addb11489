"""`geoact compare`: which runs it takes, and what it says; the comparison is tested with the reports."""

from pathlib import Path

import pytest

from geoact.commands.compare import Compare, run
from geoact.errors import InputError


def test_runs_by_name_or_all_of_a_directory(folder, tmp_path, capsys):
    assert run(Compare(runs_dir=folder, out=tmp_path / "all")) == 0
    everything = capsys.readouterr().out.split()
    assert run(Compare((folder / "a", Path("b")), runs_dir=folder, out=tmp_path / "two")) == 0
    two = capsys.readouterr().out.split()
    assert all(name.startswith(str(tmp_path / "two")) for name in two)
    tables = [(tmp_path / out / "comparison_details.md").read_text() for out in ("all", "two")]
    assert "walker-run" in tables[0] and "walker-run" not in tables[1] and "Hopper-v5" in tables[1]
    assert len(everything) >= len(two) > 1


def test_a_damaged_run_is_named_and_left_out(folder, tmp_path, capsys):
    (folder / "a" / "run.json").write_text("{")
    assert run(Compare(runs_dir=folder, out=tmp_path / "out")) == 0
    assert capsys.readouterr().err.startswith("skipped ")


def test_no_directory(tmp_path):
    with pytest.raises(InputError, match="is not a directory"):
        run(Compare(runs_dir=tmp_path / "none", out=tmp_path / "out"))
