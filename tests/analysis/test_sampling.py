import csv

import pytest

from geoact import sphere
from geoact.analysis import sampling, vmf


@pytest.mark.parametrize("dim", [2, 17])
def test_concentrations_are_matched_by_mean_cosine(dim):
    for kappa in (0.0, 3.0):
        matched = sampling.matched_concentration(kappa, dim)
        cosine = float(sphere.mean_cosine_exact(kappa, dim))
        assert float(vmf.mean_cosine(matched, dim)) == pytest.approx(cosine, abs=1e-9)


@pytest.mark.slow
def test_the_study_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(sampling, "DIMS", (2, 6))
    files = sampling.run(tmp_path, rounds=2)
    assert all(path.stat().st_size > 0 for path in files)
    with open(tmp_path / "sampling.csv") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * len(sampling.KAPPAS)
    assert all(float(row["jit: vMF"]) > 0 and 0 < float(row["acceptance"]) <= 1 for row in rows)
