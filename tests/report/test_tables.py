import pytest

from geoact.report.tables import write_table

COLUMNS = ["task", "n", "return"]
ROWS = [["Ant_v5 | 50%", 12345, 1234.5678], ["Hopper", 3, None], ["x", 0, -0.0001]]


def test_markdown_and_csv(tmp_path):
    paths = write_table(tmp_path / "a" / "t.1", "Title", COLUMNS, ROWS, "A note.", {"return": ",.1f"})
    assert [p.name for p in paths] == ["t.1.md", "t.1.csv"]
    assert paths[0].read_text() == (
        "# Title\n\n| task | n | return |\n|---|--:|--:|\n| Ant_v5 \\| 50% | 12345 | 1,234.6 |\n"
        "| Hopper | 3 |  |\n| x | 0 | 0.0 |\n\nA note.\n"
    )
    assert paths[1].read_text() == "task,n,return\nAnt_v5 | 50%,12345,1234.57\nHopper,3,\nx,0,-0.0001\n"


def test_latex_escapes(tmp_path):
    path = write_table(tmp_path / "t", "Title", COLUMNS, ROWS, latex=True)[2]
    text = path.read_text()
    assert r"\begin{tabular}{lrr}" in text
    assert r"Ant\_v5 | 50\% & 12345 & 1235 \\" in text


def test_rows_and_formats_must_fit_the_columns(tmp_path):
    with pytest.raises(ValueError, match="2 values for 3 columns"):
        write_table(tmp_path / "t", "Title", COLUMNS, [["a", 1]])
    with pytest.raises(ValueError, match="not have: retrn"):
        write_table(tmp_path / "t", "Title", COLUMNS, ROWS, formats={"retrn": ".1f"})
    assert not list(tmp_path.iterdir())
