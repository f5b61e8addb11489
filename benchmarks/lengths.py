"""How long the runs of `recipe` and `growing` may be, so that each takes as much core time as the whole recipe's.

    taskset -c 0 python -m benchmarks.lengths      # results/sweeps/lengths.json, about four minutes

The vector steps of all variants on HalfCheetah-v4, in turns on one core: first those of the warm-up, which have no
update, then those that learn. A length is that of the run, relative to the whole's, at which both take as long; it is
taken within each round, and the median counts. `experiments/catalogue.py` has these lengths.
"""

import dataclasses
import json
import os
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from geoact.config import OffPolicyConfig, RunConfig
from geoact.experiments.sweep import Selection, plan_sweep
from geoact.training import backend

if TYPE_CHECKING:
    from geoact.training.session import Session

OUT = Path(__file__).parents[1] / "results" / "sweeps" / "lengths.json"
NAMES = ("recipe", "growing")
TASK = "HalfCheetah-v4"
ROUNDS, STEPS = 6, 250


def duration(steps: float, settings: OffPolicyConfig, idle: float, busy: float) -> float:
    """Seconds that a run of so many vector steps takes at these costs of one."""
    warm = settings.warm_up(int(steps))
    return warm * idle + (steps - warm) * busy


def equal_length(steps: int, settings: OffPolicyConfig, idle: float, busy: float, seconds: float) -> float:
    """The length, relative to `steps`, of a run that takes so many seconds."""
    low, high = 0.0, 4.0 * steps
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if duration(middle, settings, idle, busy) < seconds else (low, middle)
    return low / steps


def time_steps(session: "Session") -> float:
    """Seconds of one vector step."""
    started = time.perf_counter()
    for _ in range(STEPS):
        session.learner.step()
    session.learner.core.catch_up()
    return (time.perf_counter() - started) / STEPS


def prepare(config: RunConfig) -> "Session":
    """A session at its start, with a warm-up as long as the rounds that measure it."""
    from geoact import environments
    from geoact.training.session import Session

    settings = dataclasses.replace(config.settings, learning_starts=ROUNDS * STEPS)
    return Session(
        dataclasses.replace(config, settings=settings, timesteps=10**7), environments.factory(config.env)
    )


def measure(name: str) -> dict[str, Any]:
    """Costs and lengths of an experiment's variants."""
    experiment, runs = plan_sweep(name, Selection(tasks=(TASK,), seeds="1"))
    steps = experiment.tasks[0].vector_steps
    sessions = {run.label: prepare(run.config) for run in runs}
    idle = [{label: time_steps(session) for label, session in sessions.items()} for _ in range(ROUNDS)]
    for session in sessions.values():
        time_steps(session)  # compiles
    busy = [{label: time_steps(session) for label, session in sessions.items()} for _ in range(ROUNDS)]
    for session in sessions.values():
        session.close()
    whole = next(iter(experiment.variants))
    found = {}
    for label, variant in experiment.variants.items():
        settings, all_of_it = variant.config(), experiment.variants[whole].config()
        assert isinstance(settings, OffPolicyConfig) and isinstance(all_of_it, OffPolicyConfig)
        lengths = [
            equal_length(steps, settings, i[label], b[label], duration(steps, all_of_it, i[whole], b[whole]))
            for i, b in zip(idle, busy, strict=True)
        ]
        found[label] = {
            "warm_up_ms": [round(1e3 * each[label], 3) for each in idle],
            "learning_ms": [round(1e3 * each[label], 3) for each in busy],
            "lengths": [round(length, 3) for length in lengths],
            "length": round(statistics.median(lengths), 2),
        }
    return found


def main() -> None:
    backend.set_threads(1)
    before = os.getloadavg()[0]
    found = {name: measure(name) for name in NAMES}
    OUT.write_text(json.dumps({"task": TASK, "load_average_before": before, **found}, indent=2) + "\n")
    for name, variants in found.items():
        for label, row in variants.items():
            busy = statistics.median(row["learning_ms"])
            print(f"{name:<8} {label:<22} {busy:7.3f} ms   length {row['length']:.2f}")


if __name__ == "__main__":
    main()
