"""`geoact summarize`: what it says; what summaries are is tested with the reports."""

from geoact.cli import main


def test_summaries_of_finished_runs(folder, tmp_path, capsys, listed):
    out = tmp_path / "summaries"
    assert main(["summarize", "--runs-dir", str(folder), "--out", str(out)]) == 0
    told = capsys.readouterr()
    assert f"{out}: 2 summaries" in told.out and "left out a: stopped" in told.err
    assert sorted(path.name for path in out.iterdir() if path.is_dir()) == ["b", "c"]
    assert listed(out) == ["b", "c"]
    assert main(["summarize", "--runs-dir", str(folder), "--out", str(folder)]) == 2
