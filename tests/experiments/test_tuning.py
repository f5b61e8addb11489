"""The search: spaces fit their algorithms, trials survive, and only what is better is called better."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from geoact import cli
from geoact.config import REGISTRY, defaults
from geoact.errors import InputError, TrainingFailed
from geoact.experiments import run_file, spaces
from geoact.experiments.tuning import Search, Study, compare
from geoact.report import page, searches

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


@pytest.mark.parametrize("algorithm", list(REGISTRY))
def test_every_algorithm_has_a_space_with_its_defaults_in_it(algorithm: str):
    settings, space = defaults(algorithm), spaces.of(algorithm)
    usual = spaces.usual_values(space, settings)
    assert len(space) >= 5 and spaces.with_values(settings, usual) == settings
    for name, parameter in space.items():
        if isinstance(parameter, spaces.Choice):
            assert usual[name] in parameter.values
        else:
            assert parameter.low <= usual[name] <= parameter.high
        for value in parameter.values if isinstance(parameter, spaces.Choice) else (parameter.high,):
            spaces.with_values(settings, {name: value}).resolve("Hopper-v5", 3, 100_000)


def test_the_default_is_added_and_groups_are_reached(tmp_path: Path):
    path = tmp_path / "space.toml"
    path.write_text('[td3]\ngamma = { low = 0.9, high = 0.95 }\n"critic.layer_norm" = { choices = [true] }\n')
    space = spaces.of("td3", path)
    assert space == {"gamma": spaces.Range(0.9, 0.99), "critic.layer_norm": spaces.Choice((False, True))}
    changed = spaces.with_values(defaults("td3"), {"critic.layer_norm": True, "gamma": 0.93})
    assert changed.gamma == 0.93 and changed.critic.layer_norm  # type: ignore[attr-defined]
    assert changed.critic.actor_value == "one"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[sac]\ngama = { choices = [1] }", "line 2, sac.gama: gama is no setting of sac"),
        ("[sac]\ngamma = { choices = [] }", "line 2, sac.gamma: must have choices"),
        ("[sac]\ngamma = { low = 0.9, high = 0.8 }", "must have choices"),
        ("[sac]\ngamma = { choices = [2.0] }", r"gamma must be in \(0, 1\]"),
        ("[sac]\nbatch_size = { choices = ['many'] }", "batch-size must be a whole number"),
        ("[sca]\ngamma = { choices = [0.9] }", "line 1, sca: unknown algorithm 'sca': did you mean sac"),
        ("[ppo]\ngamma = { choices = [0.9] }", r"needs a table \[sac\]"),
    ],
)
def test_a_wrong_space_is_refused_with_its_line(tmp_path: Path, text: str, words: str):
    path = tmp_path / "space.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=words):
        spaces.of("sac", path)


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


def test_figures_and_the_page_show_a_search(tmp_path: Path, space: Path):
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


def test_bad_input_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    for argv, message in (
        (["Pendulm-v1"], "unknown environment 'Pendulm-v1'"),
        (["Pendulum-v1", "--trials", "0"], "trials must be greater than 0"),
        (["Pendulum-v1", "--algorithm", "sca"], "did you mean sac"),
        (["Pendulum-v1", "--algorithm", "ppo", "--timesteps", "100"], "PPO learns from rollouts"),
    ):
        assert cli.main(["tune", *argv, "--runs-dir", str(tmp_path / "out")]) == 2
        assert message in capsys.readouterr().err


def command(out: Path, *more: str) -> list[str]:
    return [
        *(sys.executable, "-m", "geoact", "tune", "Pendulum-v1", "--algorithm", "sac", "--trials", "4"),
        *("--timesteps", "600", "--evaluations", "3", "--eval-episodes", "1", "--confirm", "1"),
        *("--jobs", "2", "--runs-dir", str(out), *more),
    ]


@pytest.mark.slow
def test_a_search_that_is_killed_goes_on_and_ends(tmp_path: Path):
    out = tmp_path / "out"
    process = subprocess.Popen(command(out), stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("trial_0000"):
            break
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    time.sleep(1)
    done = subprocess.run(command(out), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "trials are there already" in done.stdout or "4 of 4" in done.stdout
    data = json.loads((out / "tune.json").read_text())
    assert len(data["trials"]) == 4
    found = "no better configuration than the default was found" in done.stdout
    assert found != (out / "best.toml").exists()
    if not found:
        assert run_file.read(out / "best.toml").config().env == "Pendulum-v1"
    assert (out / "history.png").exists()


@pytest.mark.slow
def test_a_search_on_ray(tmp_path: Path):
    pytest.importorskip("ray", reason="needs the extra 'ray'")
    out = tmp_path / "out"
    done = subprocess.run(
        command(out, "--executor", "ray", "--storage", str(tmp_path / "storage")),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len(json.loads((out / "tune.json").read_text())["trials"]) == 4
    assert (out / ".trials" / "trial_0000" / "run.json").exists()
