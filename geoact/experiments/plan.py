"""From an experiment to the list of its runs, complete and checked before anything starts.

A run's folder name follows from what it is, so that the same command finds the same runs again:

    <env>__<label>__s<seed>__<transitions>t
"""

import re
from dataclasses import dataclass
from pathlib import Path

from geoact.config import RunConfig, unknown
from geoact.errors import InputError
from geoact.experiments import sweep_file
from geoact.experiments.catalogue import EXPERIMENTS, Experiment, transitions
from geoact.storage import files


@dataclass(frozen=True)
class PlannedRun:
    """One run of a sweep."""

    name: str
    """Its folder."""
    label: str
    """Its variant."""
    config: RunConfig
    cost: float
    """Expected duration in arbitrary units: good enough to start the longest first."""


def find(name: str) -> Experiment:
    """An experiment by its name, or from a TOML file."""
    if name in EXPERIMENTS:
        return EXPERIMENTS[name]
    if name.endswith(".toml"):
        return sweep_file.read(Path(name))
    raise InputError(unknown("experiment", name, list(EXPERIMENTS)) + " (or give a .toml file)")


def plan(experiment: Experiment, budget: float | int | None = None) -> list[PlannedRun]:
    """All runs in the order in which they start; every environment is made once to see that it exists and fits."""
    from geoact import environments

    runs: list[PlannedRun] = []
    problems: list[str] = []
    for task in experiment.tasks:
        try:
            env = environments.make(task.env)
        except InputError as error:
            problems.append(f"{task.env}: {error}")
            continue
        (obs_dim,), (action_dim,) = env.observation_space.shape or (0,), env.action_space.shape or (0,)
        env.close()
        for label, variant in experiment.variants.items():
            if not variant.on(task):
                continue
            num_envs = experiment.environments(variant)
            timesteps = transitions(task, num_envs, budget, variant.length)
            try:
                settings = variant.config().resolve(task.env, action_dim, timesteps, num_envs)
            except InputError as error:
                problems.append(f"{label} on {task.env}: {error}")
                continue
            for seed in experiment.seeds:
                config = RunConfig(
                    env=task.env,
                    algorithm=variant.algorithm,
                    settings=settings,
                    timesteps=timesteps,
                    seed=seed,
                    num_envs=num_envs,
                    threads=1,
                    evaluations=experiment.evaluations or min(20, max(1, timesteps // 8_000)),
                    eval_episodes=experiment.eval_episodes,
                    log_points=experiment.log_points,
                    checkpoint_minutes=experiment.checkpoint_minutes,
                    keep_checkpoints=False,  # hundreds of replay buffers would fill any disk
                )
                # The share of the networks that depends on the task, and the simulator, grow with its sizes; PPO
                # spends an eighth of the others' time.
                cost = timesteps * (1 + obs_dim / 200 + action_dim / 20)
                cost /= 1 if variant.off_policy else 8
                name = f"{slug(task.env)}__{slug(label)}__s{seed}__{timesteps}t"
                runs.append(PlannedRun(name, label, config, cost))
    if problems:
        raise InputError(f"{experiment.name} cannot run, nothing was started: " + "; ".join(problems))
    if not runs:
        raise InputError(f"{experiment.name}: no run is left of this choice of tasks and algorithms")
    if len({run.name for run in runs}) < len(runs):
        raise InputError(
            f"{experiment.name}: two runs would share a folder; give variants and tasks clearer names"
        )
    if experiment.in_order:
        tasks = [task.env for task in experiment.tasks]
        return sorted(
            runs, key=lambda run: (tasks.index(run.config.env), experiment.seeds.index(run.config.seed))
        )
    return sorted(runs, key=lambda run: -run.cost)


def slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9.=-]+", "-", text).strip("-") or "run"


def note_labels(folder: Path, experiment: Experiment, runs: list[PlannedRun]) -> None:
    """Write down which run is which variant, beside those already there."""
    path = folder / "sweep.json"
    labels: dict[str, str] = {}
    if path.exists():
        known = files.read_json(path).get("runs")
        labels = known if isinstance(known, dict) else {}
    data = {
        "format": "geoact-sweep",
        "schema": 1,
        "experiment": experiment.name,
        "title": experiment.title,
        "runs": labels | {run.name: run.label for run in runs},
    }
    files.write_json(path, data)
