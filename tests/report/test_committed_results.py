"""The committed tables come from the committed runs by the tool's own commands: made again, they are the same bytes."""

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


def test_every_result_folder_is_in_the_index() -> None:
    index = (RESULTS / "README.md").read_text()
    for folder in RESULTS.iterdir():
        if folder.is_dir():
            assert f"[{folder.name}]({folder.name}/" in index or folder.name == "evidence", folder.name
