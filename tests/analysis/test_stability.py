import csv

import pytest

from geoact.analysis import stability


@pytest.mark.slow
def test_the_four_forms_train_and_are_recorded(tmp_path):
    files = stability.run(tmp_path, env="Pendulum-v1", timesteps=2_400)
    names = {p.name for p in files}
    assert names == {"stability_curves.csv", *(f"stability{s}" for s in (".md", ".csv", ".png", ".svg"))}
    with open(tmp_path / "stability_curves.csv") as file:
        rows = list(csv.DictReader(file))
    lowest = {form: min(float(r["kappa_min"]) for r in rows if r["form"] == form) for form in stability.FORMS}
    assert lowest["softplus"] >= 0 and lowest["published"] >= 0
    # free kappa starts its way down at once
    assert lowest["free"] < -1
