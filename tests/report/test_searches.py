"""A search in figures and on the report page."""

import json
from pathlib import Path

import pytest

from geoact.experiments.tuning import Study
from geoact.report import page, searches
from tests.experiments.test_tuning import scores, search

pytest.importorskip("optuna", reason="needs the extra 'tune'")

SPACE = "[sac]\nactor_lr = { low = 1e-4, high = 1e-3, log = true }\ngamma = { choices = [0.9, 0.99] }\n"


def test_figures_and_the_page_show_a_search(tmp_path: Path):
    space = tmp_path / "space.toml"
    space.write_text(SPACE)
    study = Study(search(space, trials=12), tmp_path)
    for number in range(12):
        planned = study.next()
        assert planned is not None
        value = 1.0 - abs(planned.config.settings.gamma - 0.9)
        study.watch(planned.name, scores(value))
        study.close(planned.name, scores(value), complete=number != 5, reason="<b>" if number == 5 else "")
    study.write(confirmed={"default": {"1": 0.5}, "tuned": {"1": 0.75}})
    (found,) = searches.find(tmp_path)
    assert len(found.trials) == 12 and sum(found.importance.values()) == pytest.approx(1.0)
    assert {path.name for path in searches.draw(tmp_path)} >= {"history.png", "importance.svg"}
    page.write_report(tmp_path, tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    assert (
        '<section id="searches">' in text
        and "trial_0000, the default" in text
        and "data:image/svg+xml" in text
    )
    assert "tuned: 0.8, the mean of 0.8 (seed 1)" in text
    (tmp_path / "tune.json").write_text(json.dumps({"format": "geoact-tune", "schema": 1}))
    assert searches.find(tmp_path) == [], "a damaged one is left out"
