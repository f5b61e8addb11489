"""`geoact report`: the page, how many runs are on it, and which are not; the page is tested with the reports."""

import pytest

from geoact.commands.report import Report, run
from geoact.errors import InputError


def test_a_page_and_what_was_skipped(folder, tmp_path, capsys):
    (folder / "a" / "run.json").write_text("{")
    out = tmp_path / "page.html"
    assert run(Report(runs_dir=folder, out=out, title="Mine")) == 0
    told = capsys.readouterr()
    assert told.out == f"report: {out} (3 runs)\n"
    assert told.err.startswith("skipped ") and told.err.count("\n") == 1
    assert "<title>Mine" in out.read_text()


def test_only_a_page_is_written(tmp_path):
    with pytest.raises(InputError, match="use a name that ends in"):
        Report(out=tmp_path / "page.pdf")
