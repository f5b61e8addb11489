import csv
import math
from pathlib import Path

import numpy as np
import pytest

from geoact import cli
from geoact.config import GACConfig
from geoact.experiments.catalogue import EXPERIMENTS
from geoact.report import paper
from geoact.report.collect import cells, collect, group
from tests.report.test_collect import make_run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two variants of Table 3, two seeds each, one more failed; and one of Table A.2 with a learned scale."""
    for seed, default, narrow in ((0, 100.0, 50.0), (10, 300.0, 70.0)):
        make_run(tmp_path / "runs", f"default{seed}", seed=seed, score=default)
        make_run(tmp_path / "runs", f"narrow{seed}", GACConfig(radius=1.5), seed=seed, score=narrow)
    plain = GACConfig(normalize_direction=False, normalize_mixture=False)
    make_run(tmp_path / "runs", "plain", plain, state="failed")
    learned = GACConfig(scale="learned")
    make_run(tmp_path / "runs", "learned", learned, env="Walker2d-v4", algorithm="gac-scale")
    return tmp_path


def test_table3_by_hand(folder: Path) -> None:
    assert cli.main(["paper", "table3", "--runs", str(folder / "runs"), "--out", str(folder / "out")]) == 0
    text = (folder / "out" / "table3.md").read_text()
    rows = {
        line.split("|")[1].strip(): [c.strip() for c in line.split("|")[2:-1]]
        for line in text.splitlines()[4:10]
    }
    assert rows["default (kappa, r=2.5)"] == ["200 ± 141 (n=2)", "1,000", "12,750 ± 758 (n=5)", "1,000,000"]
    assert rows["r=1.5"] == ["60.00 ± 14.14 (n=2)", "1,000", "7,272 ± 1,235 (n=5)", "1,000,000"]
    assert rows["r=3.5"][0] == "no runs"
    assert rows["without normalization"][0] == "1 failed (diverged)"
    assert "8,000 transitions = 1,000 vector steps of 8 environments" in text
    with open(folder / "out" / "table3_details.csv") as file:
        details = {row["variant"]: row for row in csv.DictReader(file)}
    assert float(details["r=2.5"]["mean"]) == 200.0 and details["r=2.5"]["seeds"] == "2"
    assert float(details["r=2.5"]["IQM 95 % low"]) == 100.0  # with two seeds, both may be the worse one
    assert details["r=2.5"]["transitions"] == "8000" and details["r=2.5"]["vector steps"] == "1000"
    assert r"\toprule" in (folder / "out" / "table3.tex").read_text()


def test_aggregate_by_hand(folder: Path) -> None:
    records, _ = collect(folder / "runs")
    table = paper.aggregate("t", "T", cells(EXPERIMENTS["table3"], records), "eval")
    assert table is not None
    assert [row[0] for row in table.rows] == ["r=2.5", "r=1.5"]
    # 50 is the worst run, 300 the best: (100-50)/250 and (300-50)/250 give 0.2 and 1, (50, 70) give 0 and 0.08
    assert [row[1] for row in table.rows] == [pytest.approx(0.6), pytest.approx(0.04)]
    assert table.rows[1][3] == 1.0  # both runs of the first beat both of the second


def test_unequal_budgets_are_never_compared(tmp_path: Path) -> None:
    make_run(tmp_path, "a")
    make_run(tmp_path, "b", GACConfig(radius=1.5), timesteps=16_000)
    records, _ = collect(tmp_path)
    assert paper.aggregate("t", "T", cells(EXPERIMENTS["table3"], records), "eval") is None


def test_a_mean_never_stands_without_seeds_and_budget(folder: Path) -> None:
    records, _ = collect(folder / "runs")
    for name in paper.TABLES:
        experiment = EXPERIMENTS[name]
        table = paper.as_printed(experiment, cells(experiment, records), "eval", [])
        steps = table.columns.index("our vector steps")
        for row in table.rows:
            for column, entry in zip(table.columns, row):
                if ("ours" in column) and isinstance(entry, str) and "±" in entry:
                    assert "(n=" in entry and row[steps]


def test_pusher_is_named_beside_its_number() -> None:
    table = paper.as_printed(EXPERIMENTS["table1"], cells(EXPERIMENTS["table1"], []), "eval", [])
    assert table.rows[2][0] == "Pusher-v4 (ours: Pusher-v5)"
    assert any(note.startswith("Pusher-v4: run as Pusher-v5") for note in table.notes)


@pytest.mark.parametrize("name", [*paper.TABLES, "beyond", *paper.FIGURES])
def test_every_table_and_figure_is_written_from_whatever_is_there(folder: Path, name: str) -> None:
    assert cli.main(["paper", name, "--runs", str(folder / "runs"), "--out", str(folder / "out")]) == 0
    suffixes = (".md", ".csv", ".tex") if not name.startswith("fig") else (".png", ".svg")
    for suffix in suffixes:
        assert (folder / "out" / f"{name}{suffix}").stat().st_size > 100


def test_unknown_names_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["paper", "table9", "--runs", str(folder)]) == 2
    assert "unknown table or figure 'table9'" in capsys.readouterr().err
    assert cli.main(["paper", "table1", "--runs", str(folder / "none")]) == 2
    assert "is not a directory" in capsys.readouterr().err
    assert cli.main(["compare", str(folder / "out")]) == 2


def test_compare_names_the_skipped(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "runs" / "broken").mkdir()
    (folder / "runs" / "broken" / "run.json").write_text("{")
    assert cli.main(["compare", str(folder / "runs"), "--out", str(folder / "out")]) == 0
    assert "skipped broken" in capsys.readouterr().err
    assert "gac radius=1.5" in (folder / "out" / "comparison_details.md").read_text()
    assert (folder / "out" / "comparison_curves.svg").exists()


def test_curves_average_over_the_runs_that_reach_a_step(tmp_path: Path) -> None:
    make_run(tmp_path, "a", score=100.0)
    make_run(tmp_path, "b", score=200.0, seed=10)
    records, _ = collect(tmp_path)
    (cell,) = group(records).values()
    found = paper.curve(cell.counted(), "eval/return_mean")
    assert found is not None
    steps, mean, std, seeds = found
    assert steps.tolist() == [4000, 8000] and mean.tolist() == [75.0, 150.0] and seeds == 2
    assert std == pytest.approx([np.std([50, 100], ddof=1), np.std([100, 200], ddof=1)])
    records[1].rows.pop()  # the second run stopped half-way
    found = paper.curve(cell.counted(), "eval/return_mean")
    assert found is not None
    assert found[1].tolist() == [75.0, 100.0] and math.isnan(found[2][1])
