"""The committed tables come from the committed runs by the tool's own commands: made again, they are the same bytes."""

import csv
import itertools
from pathlib import Path

import pytest

from geoact.analysis import scales
from geoact.analysis.reproduction import reproduce
from geoact.experiments.catalogue import INGREDIENTS
from geoact.report.comparison import compare_runs

RESULTS = Path(__file__).parents[2] / "results"


def same(folder: Path, out: Path, names: list[str]) -> None:
    for name in names:
        assert (out / name).read_text() == (folder / name).read_text(), name


def compared(name: str, runs: list[Path], out: Path) -> None:
    """A comparison of committed runs is the committed one."""
    compare_runs(runs, out)
    same(RESULTS / name, out, ["comparison_details.md", "comparison_details.csv"])


def test_halfcheetah(tmp_path: Path) -> None:
    runs = [
        *sorted((RESULTS / "halfcheetah").glob("kappa_s*")),
        *sorted((RESULTS / "halfcheetah").glob("entropy_s*")),
    ]
    compared("halfcheetah", runs, tmp_path)


def test_radius(tmp_path: Path) -> None:
    papers = sorted((RESULTS / "evidence").glob("Ant-v4__gac__*"))
    compared("radius", [RESULTS / "radius", *papers], tmp_path)


def test_walker2d(tmp_path: Path) -> None:
    compared("walker2d", [RESULTS / "walker2d"], tmp_path)


def test_scales(tmp_path: Path) -> None:
    scales.run(tmp_path, [RESULTS / "walker-walk"])
    same(RESULTS / "analysis", tmp_path, ["scales.md", "scales.csv"])


def test_all_tasks(tmp_path: Path) -> None:
    folder = RESULTS / "evidence"
    written = reproduce("evidence", folder, tmp_path).written
    same(folder, tmp_path, [path.name for path in written if path.suffix in (".md", ".csv")])


@pytest.mark.parametrize("name", ["table3", "tableA2", "weight", "long"])
def test_tables_that_share_runs_with_the_evidence(name: str, tmp_path: Path) -> None:
    reproduce(name, RESULTS, tmp_path)
    same(
        RESULTS / name, tmp_path, [f"{name}{part}" for part in (".md", ".csv", "_details.md", "_details.csv")]
    )


@pytest.mark.parametrize("name", ["table1", "table2"])
def test_the_papers_first_tables_come_from_the_evidence(name: str, tmp_path: Path) -> None:
    written = reproduce(name, RESULTS / "evidence", tmp_path).written
    same(RESULTS / name, tmp_path, [path.name for path in written if path.suffix in (".md", ".csv")])


def reproduced(name: str, tmp_path: Path) -> list[dict[str, str]]:
    """The rows of an experiment's table, after a look that it is what the committed runs make."""
    written = reproduce(name, RESULTS / name, tmp_path).written
    same(RESULTS / name, tmp_path, [path.name for path in written if path.suffix in (".md", ".csv")])
    with (tmp_path / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_recipe_for_60_000_updates_and_more(tmp_path: Path) -> None:
    rows = reproduced("fast", tmp_path)
    ran = [row for row in rows if row["method"] == "gac-fast" and row["training, end"]]
    expected = [
        [
            row["task"],
            f"{int(row['our vector steps']) - 5_000:,}",  # the first 5,000 are warm-up
            row["training, end"],
            row["evaluation, end"],
            row["aim there"],
            row["paper's gac, training (vector steps)"].rpartition(" (")[0],
            row["first evaluation at least the paper's (updates)"],
            f"{float(row['core hours']):.2f}",
        ]
        for row in ran
    ]
    assert table_of("docs/learning.md", "| task | updates | training | evaluation | our aim |") == expected


def test_the_recipe_taken_apart(tmp_path: Path) -> None:
    rows = {row["variant"]: row for row in reproduced("recipe", tmp_path)}
    shares, odds = (
        [f"{what}, {kind}" for kind in ("training", "evaluation")]
        for what in ("share of gac-fast", "P(gac-fast better)")
    )
    expected = [
        [
            ingredient.replace("-", " "),
            *(rows[f"no-{ingredient}"][column] for column in shares),
            *(rows[f"no-{ingredient}"][column].partition(" (")[0] for column in odds),
            *(rows[f"only-{ingredient}"][column] for column in shares),
        ]
        for ingredient in INGREDIENTS
    ]
    expected.append(["all of them", *(rows["gac-entropy"][column] for column in shares)])
    expected[-1] += [*(rows["gac-entropy"][column].partition(" (")[0] for column in odds), "100 %", "100 %"]
    assert table_of("docs/learning.md", "| ingredient | without it: training |") == expected


def test_the_recipe_made_larger(tmp_path: Path) -> None:
    expected = [
        [
            row["variant"],
            row["HalfCheetah-v4"],
            row["Walker2d-v4"],
            row["share of gac-fast, training"],
            row["share of gac-fast, evaluation"],
            f"{int(row['updates']):,}",
        ]
        for row in reproduced("growing", tmp_path)
    ]
    assert table_of("docs/learning.md", "| variant | HalfCheetah-v4 | Walker2d-v4 |") == expected


def table_of(page: str, heading: str) -> list[list[str]]:
    """The rows of a table on a page, without what is bold in them."""
    lines = (RESULTS.parent / page).read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(heading))
    rows = itertools.takewhile(lambda text: text.startswith("|"), lines[start + 2 :])
    return [[cell.strip(" *") for cell in line.strip("|").split("|")] for line in rows]


def evidence_rows() -> list[dict[str, str]]:
    with (RESULTS / "evidence" / "evidence.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def papers(row: dict[str, str]) -> str:
    return row["paper's gac (vector steps)"].rpartition(" (")[0]


def test_the_table_on_the_front_page_is_the_evidences() -> None:
    methods = ["gac", "gac-fast", "sac-fast", "sac", "td3", "ppo"]
    expected = [
        [
            row["task"].partition(" (")[0],
            *(row[method].replace("no runs", "") for method in methods),
            papers(row),
        ]
        for row in evidence_rows()
    ]
    assert table_of("README.md", "| task | gac | gac-fast | sac-fast | sac | td3 | ppo |") == expected


def test_the_recipes_table_is_the_evidences() -> None:
    """The number of seeds has a column of its own, and so has each score; else they are the file's."""
    expected = []
    for row in evidence_rows():
        scores, _, seeds = row["gac-fast"].replace("no runs", "").rstrip(")").partition(" (n=")
        training, _, evaluation = scores.partition(" / ")
        expected.append([row["task"].partition(" (")[0], training, evaluation, seeds, papers(row)])
    shown = table_of("docs/learning.md", "| task | | training | evaluation | n |")
    assert [[row[0], *row[2:]] for row in shown] == expected


def test_every_result_folder_is_in_the_index() -> None:
    index = (RESULTS / "README.md").read_text()
    for folder in RESULTS.iterdir():
        if folder.is_dir():
            assert f"[{folder.name}]({folder.name}/" in index or folder.name == "evidence", folder.name
