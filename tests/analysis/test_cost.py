import csv

import pytest

from geoact.analysis import cost


@pytest.mark.parametrize("dim", [2, 6, 17])
def test_outputs_of_the_methods(dim):
    expected = {"gac": dim + 1, "gac-scale": 2 * dim + 1, "sac": 2 * dim, "td3": dim}
    expected |= {"gac-fast": dim + 2, "sac-fast": 2 * dim}  # one dimension of slack
    assert {method: cost.counts(method, 11, dim)[0] for method in cost.METHODS} == expected


def test_parameters_by_hand():
    """obs 17, actions 6: two hidden layers of 256, then the heads."""
    body = (17 + 1) * 256 + (256 + 1) * 256
    concentration = (256 + 1) * 64 + 65
    assert cost.counts("sac", 17, 6)[1] == body + 2 * 257 * 6
    assert cost.counts("td3", 17, 6)[1] == body + 257 * 6
    assert cost.counts("gac", 17, 6)[1] == body + 257 * 6 + concentration
    assert cost.counts("gac-scale", 17, 6)[1] == body + 257 * 6 + concentration + 65 * 6


@pytest.mark.slow
def test_the_study_runs(tmp_path):
    files = cost.run(tmp_path, rounds=2)
    assert {p.name for p in files} == {
        *(f"{name}{suffix}" for name in ("cost", "parameters") for suffix in (".md", ".csv")),
        "cost.png",
        "cost.svg",
    }
    with open(tmp_path / "cost.csv") as file:
        rows = {row["method"]: row for row in csv.DictReader(file)}
    assert float(rows["sac"]["update"]) == 1.0
    assert 0.2 < float(rows["td3"]["update"]) < 1.5
