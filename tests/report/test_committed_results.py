"""The committed tables come from the committed runs by the tool's own commands: made again, they are the same bytes."""

import csv
import itertools
from pathlib import Path

import pytest

from geoact.analysis import scales
from geoact.analysis.reproduction import reproduce
from geoact.report.comparison import compare_runs

RESULTS = Path(__file__).parents[2] / "results"


def same(folder: Path, out: Path, names: list[str]) -> None:
    for name in names:
        assert (out / name).read_text() == (folder / name).read_text(), name


def test_halfcheetah(tmp_path: Path) -> None:
    runs = [
        *sorted((RESULTS / "halfcheetah").glob("kappa_s*")),
        *sorted((RESULTS / "halfcheetah").glob("entropy_s*")),
    ]
    compare_runs(runs, tmp_path)
    same(RESULTS / "halfcheetah", tmp_path, ["comparison_details.md", "comparison_details.csv"])


def test_scales(tmp_path: Path) -> None:
    scales.run(tmp_path, [RESULTS / "walker-walk"])
    same(RESULTS / "analysis", tmp_path, ["scales.md", "scales.csv"])


@pytest.mark.parametrize("name", ["evidence", "fast"])
def test_all_tasks(name: str, tmp_path: Path) -> None:
    folder = RESULTS / name
    written = reproduce(name, folder, tmp_path).written
    same(folder, tmp_path, [path.name for path in written if path.suffix in (".md", ".csv")])


@pytest.mark.parametrize("name", ["table3", "tableA2", "weight"])
def test_tables_that_share_runs_with_the_evidence(name: str, tmp_path: Path) -> None:
    reproduce(name, RESULTS, tmp_path)
    same(
        RESULTS / name, tmp_path, [f"{name}{part}" for part in (".md", ".csv", "_details.md", "_details.csv")]
    )


@pytest.mark.parametrize("page", ["README.md", "docs/learning.md"])
def test_the_recipes_table_on_a_page_is_that_of_the_results(page: str) -> None:
    """Its numbers are bold or not, and the number of seeds has a column of its own; else they are the file's."""
    lines = (RESULTS.parent / page).read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("| task | | after 60,000 updates"))
    shown = {}
    for line in itertools.takewhile(lambda text: text.startswith("|"), lines[start + 2 :]):
        task, _, *cells = (cell.strip(" *") for cell in line.strip("|").split("|"))
        shown[task] = cells
    with (RESULTS / "fast" / "fast.csv").open(newline="") as file:
        rows = [row for row in csv.reader(file) if row[1] == "gac-fast" and row[2] != "no runs"]
    expected = {}
    for task, _, midway, training, final, paper, _, first, *_ in rows:
        score, _, seeds = final.partition(" (n=")
        expected[task] = [midway, training, score, seeds.rstrip(")") or "1", paper.rpartition(" (")[0], first]
    assert shown == expected


def test_every_result_folder_is_in_the_index() -> None:
    index = (RESULTS / "README.md").read_text()
    for folder in RESULTS.iterdir():
        if folder.is_dir():
            assert f"[{folder.name}]({folder.name}/" in index or folder.name == "evidence", folder.name
