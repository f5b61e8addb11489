"""`geoact paper`: what it prints; the tables are tested with the reports."""

from pathlib import Path

import pytest

from geoact.commands.paper import Paper, run
from geoact.errors import InputError
from geoact.report.paper_tables import ITEMS


def test_what_is_written_and_what_is_missing(folder, tmp_path, capsys):
    assert run(Paper("table3", runs_dir=folder, out=tmp_path / "out")) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "# Table 3: ablations on HalfCheetah" in "\n".join(lines), "the numbers themselves"
    written = [line for line in lines if line.startswith(str(tmp_path))]
    assert written and all(Path(line).exists() for line in written)
    assert any(line.startswith("missing: table3: ") and "geoact sweep table3" in line for line in lines)


def test_the_help_names_everything_that_there_is():
    import geoact.commands.paper as module

    source = Path(str(module.__file__)).read_text(encoding="utf-8")
    named = source.partition("what: Positional[str]")[2].split('"""')[1]
    assert set(named.replace("or all.", "").replace("\n", " ").replace(",", " ").split()) == set(ITEMS)


def test_an_unknown_name(tmp_path):
    with pytest.raises(InputError, match="unknown table or figure 'table9'"):
        run(Paper("table9", runs_dir=tmp_path, out=tmp_path))
