import csv

import numpy as np
import pytest

from geoact import sphere
from geoact.analysis import entropy


@pytest.mark.parametrize("dim", [3, 17])
def test_derivative_of_the_exact_entropy(dim):
    kappa, step = np.array([-1.0, 0.3, 2.0]), 1e-5
    difference = sphere.entropy_exact(kappa + step, dim) - sphere.entropy_exact(kappa - step, dim)
    np.testing.assert_allclose(entropy.derivative(kappa, dim), difference / (2 * step), rtol=1e-4)


@pytest.mark.parametrize("dim", [2, 3, 6, 17])
def test_von_mises_fisher_has_the_larger_entropy_at_the_same_mean_cosine(dim):
    """It maximises entropy under a given mean; the gap tends to a constant."""
    gaps = [
        entropy.matched_vmf(k, dim)[1] - float(sphere.entropy_exact(k, dim))
        for k in (-2.0, 0.0, 2.0, 5.0, 6.0)
    ]
    assert min(gaps) > -1e-9 and gaps[1] < gaps[2] < gaps[3]
    assert gaps[4] == pytest.approx(gaps[3], abs=0.01)


@pytest.mark.slow
def test_the_table_holds_what_it_says(tmp_path):
    files = entropy.run(tmp_path)
    assert {p.name for p in files} == {"entropy.md", "entropy.csv", "entropy.png", "entropy.svg"}
    with open(tmp_path / "entropy.csv") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(entropy.DIMS) * len(entropy.KAPPAS)
    row = next(r for r in rows if r["d"] == "3" and float(r["kappa"]) == -1.0)
    assert float(row["H"]) == pytest.approx(2.4389, abs=1e-4)
    assert next(r for r in rows if r["d"] == "2" and float(r["kappa"]) == 0.0)["dH/dkappa"] == ""
