"""The search: trials survive, and only what is better is called better."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from geoact.config import defaults
from geoact.errors import InputError, TrainingFailed
from geoact.experiments.tuning import Search, Study, compare

pytest.importorskip("optuna", reason="needs the extra 'tune'")

ENV = "tests.probes:Reach-v0"
SPACE = """[sac]
actor_lr = { low = 1e-4, high = 1e-3, log = true }
gamma = { choices = [0.9, 0.99] }
"""
SEARCH = Search(ENV, "sac", trials=6, timesteps=80, num_envs=2, evaluations=4, eval_episodes=1)


@pytest.fixture
def space(tmp_path: Path) -> Path:
    path = tmp_path / "space.toml"
    path.write_text(SPACE)
    return path


def search(space: Path, **changes: Any) -> Search:
    return dataclasses.replace(SEARCH, space=space, **changes)


def scores(value: float) -> list[tuple[int, float]]:
    return [(20 * i, value) for i in range(1, 5)]


def test_the_first_trial_is_the_default_and_bad_ones_are_pruned(tmp_path: Path, space: Path):
    study = Study(search(space), tmp_path)
    for number in range(4):
        planned = study.next()
        assert planned is not None and planned.name == f"trial_{number:04}"
        if number == 0:
            assert planned.config.settings == defaults("sac").resolve(ENV, 2, 80)
        assert not any(study.watch(planned.name, scores(10.0)[:n]) for n in range(1, 5))
        assert f"{number + 1} of 6" in study.close(planned.name, scores(10.0 + number), complete=True)
    bad = study.next()
    assert bad is not None and study.watch(bad.name, scores(-100.0)[:2])
    assert "pruned" in study.close(bad.name, scores(-100.0)[:2], complete=False)
    last = study.next()
    assert last is not None and study.next() is None, "those that run count"
    assert "failed: it diverged" in study.close(last.name, [], complete=False, reason="it diverged")
    assert study.next() is None and len(study.ended) == 6
    best = study.best()
    assert best is not None and best.value == 13.0 and best.number == 3
    values = [trial["value"] for trial in json.loads((tmp_path / "tune.json").read_text())["trials"]]
    assert values == [10.0, 11.0, 12.0, 13.0, None, None]


def test_a_killed_search_takes_up_what_was_running(tmp_path: Path, space: Path):
    first = Study(search(space), tmp_path)
    default, second = first.next(), first.next()
    assert default is not None and second is not None
    first.close(default.name, scores(1.0), complete=True)
    del first  # as after a kill: the second trial was never closed
    study = Study(search(space), tmp_path)
    assert len(study.ended) == 1
    again, other = study.next(), study.next()
    assert again == second, "the same run, with the same settings"
    assert other is not None and other.name not in (default.name, second.name)
    assert other.config.settings != second.config.settings
    with pytest.raises(InputError, match="a search with another timesteps"):
        Study(search(space, timesteps=90), tmp_path)


def test_when_everything_fails_it_stops(tmp_path: Path, space: Path):
    study = Study(search(space), tmp_path)
    for _ in range(3):
        planned = study.next()
        assert planned is not None
        study.close(planned.name, [], complete=False, reason="no such thing")
    with pytest.raises(TrainingFailed, match="every trial has failed; the last one: no such thing"):
        study.next()


def test_better_means_by_more_than_the_noise():
    usual = {"1": 10.0, "2": 12.0}
    assert compare(usual, {"1": 14.0, "2": 15.0}) == (True, "default 11.0 (2 seeds), tuned 14.5 (2 seeds)")
    assert not compare(usual, {"1": 10.5, "2": 12.5})[0], "half a point, of a standard error of 1.4"
    assert compare({"1": 1.0}, {"1": 2.0})[0] and not compare({"1": 1.0}, {"1": 1.0})[0]
    assert compare({}, {"1": -5.0})[0] and not compare(usual, {})[0]
