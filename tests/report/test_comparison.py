import csv
import json
from pathlib import Path

import pytest

from geoact import cli
from geoact.config import GACConfig
from geoact.errors import InputError
from geoact.experiments.catalogue import EXPERIMENTS
from geoact.experiments.reference import reference
from geoact.report import comparison
from geoact.report.collect import collect, group, groups_of
from tests.report.test_collect import make_run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for seed, default, narrow in ((0, 100.0, 50.0), (10, 300.0, 70.0)):
        make_run(tmp_path / "runs", f"default{seed}", seed=seed, score=default)
        make_run(tmp_path / "runs", f"narrow{seed}", GACConfig(radius=1.5), seed=seed, score=narrow)
    return tmp_path


def test_aggregate_by_hand(folder: Path) -> None:
    runs, _ = collect(folder / "runs")
    table = comparison.aggregate("t", "T", groups_of(EXPERIMENTS["table3"], runs))
    assert table is not None
    assert [row[:2] for row in table.rows] == [
        ["training", "r=2.5"],
        ["training", "r=1.5"],
        ["evaluation", "r=2.5"],
        ["evaluation", "r=1.5"],
    ]
    # On the paper's tasks the ends are random actions and the paper's GAC; the interquartile mean of two is their mean.
    ends = reference("HalfCheetah-v4")
    assert ends is not None
    low, high = ends
    expected = [(mean - low) / (high - low) for mean in (40.0, 40.0, 200.0, 60.0)]
    assert [row[2] for row in table.rows] == pytest.approx(expected)
    assert "0: random actions, 1: the paper's GAC" in table.notes[-1]
    assert table.rows[3][4] == 1.0  # both runs of the first beat both of the second
    assert table.rows[1][4] == 0.5  # all training returns are equal


def test_which_beats_which_by_hand(folder: Path) -> None:
    make_run(folder / "runs", "wide0", GACConfig(radius=3.5), score=200.0)
    table = comparison.pairs("t", "T", groups_of(EXPERIMENTS["table3"], collect(folder / "runs")[0]))
    assert table is not None and table.columns == ["score", "variant", "r=2.5", "r=3.5", "r=1.5", "tasks"]
    odds = {row[1]: row[2:] for row in table.rows if row[0] == "evaluation"}
    assert odds == {  # 100 and 300 against 200 and against 50 and 70
        "r=2.5": [None, 0.5, 1.0, 1],
        "r=3.5": [0.5, None, 1.0, 1],
        "r=1.5": [0.0, 0.0, None, 1],
    }
    assert comparison.pairs("t", "T", {}) is None


def test_other_tasks_are_normalised_by_the_runs_themselves() -> None:
    scores = {"a": {"Mine-v0": [100.0, 300.0]}, "b": {"Mine-v0": [50.0, 70.0]}}
    scale = comparison.scale_of(scores, ["Mine-v0"])
    assert str(scale) == "0: worst run shown, 1: best"
    assert scale.apply(scores) == {"a": {"Mine-v0": [0.2, 1.0]}, "b": {"Mine-v0": [0.0, 0.08]}}
    same = {"a": {"Mine-v0": [7.0]}, "b": {"Mine-v0": [7.0]}}
    assert comparison.scale_of(same, ["Mine-v0"]).apply(same)["a"]["Mine-v0"] == [0.5]
    mixed = {"a": {"Mine-v0": [1.0, 2.0], "Hopper-v4": [0.0, 10.0]}}
    assert comparison.scale_of(mixed, ["Mine-v0", "Hopper-v4"]).ends["Hopper-v4"] == (0.0, 10.0)


def test_unequal_budgets_are_never_compared(tmp_path: Path) -> None:
    make_run(tmp_path, "a")
    make_run(tmp_path, "b", GACConfig(radius=1.5), timesteps=16_000)
    runs, _ = collect(tmp_path)
    assert comparison.aggregate("t", "T", groups_of(EXPERIMENTS["table3"], runs)) is None


def test_compare_names_the_skipped(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "runs" / "broken").mkdir()
    (folder / "runs" / "broken" / "run.json").write_text("{")
    assert cli.main(["compare", str(folder / "runs"), "--out", str(folder / "out")]) == 0
    assert "skipped broken" in capsys.readouterr().err
    assert "gac radius=1.5" in (folder / "out" / "comparison_details.md").read_text()
    assert (folder / "out" / "comparison_curves.svg").exists()


def test_nothing_to_compare_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="give at least one"):
        comparison.compare_runs([], tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="is not a run and holds none"):
        comparison.compare_runs([tmp_path / "empty"], tmp_path)


@pytest.mark.parametrize("label", ["$wide$", "a $b", r"\frac{", "$\\unknown$", "100 %_^{"])
def test_trust_20_any_label_can_be_drawn(folder: Path, label: str) -> None:
    """Matplotlib would read what stands between two dollar signs as mathematics."""
    (folder / "runs" / "sweep.json").write_text(json.dumps({"runs": {"narrow0": label, "narrow10": label}}))
    runs, _ = collect(folder / "runs")
    written = comparison.compare(group(runs), folder / "out")
    assert folder / "out" / "comparison_curves.png" in written


def test_steps_to_a_threshold_by_hand(tmp_path: Path) -> None:
    for seed, score in (
        (0, 100.0),
        (10, 40.0),
    ):  # evaluations: half of it at 4,000 transitions, all of it at 8,000
        make_run(tmp_path / "runs", f"s{seed}", seed=seed, score=score)
    written, _ = comparison.compare_runs([tmp_path / "runs"], tmp_path / "out", threshold=45.0)
    assert tmp_path / "out" / "comparison_threshold.md" in written
    with open(tmp_path / "out" / "comparison_threshold.csv") as file:
        rows = {row["return"]: row for row in csv.DictReader(file)}
    assert rows["evaluation"]["runs"] == "2" and rows["evaluation"]["runs that reach it"] == "1"
    assert rows["evaluation"]["transitions"] == "4000" and rows["evaluation"]["vector steps"] == "500"
    assert rows["training"]["runs that reach it"] == "0" and rows["training"]["transitions"] == ""
