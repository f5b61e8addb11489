"""What a sweep costs on this machine: pinned runs side by side against one alone, and the time of a vector step.

    python -m benchmarks.sweeps parallel    # results/sweeps/parallel.json
    python -m benchmarks.sweeps tasks       # results/sweeps/tasks.json

Both train for real, through the sweep's own workers, and take their times from the runs' metrics: the increase of
`time/elapsed` over the second half of a run, without start, compilation and evaluations. The load of the machine
when the measurement began is written down with it: on a busy one the numbers are worth little.
"""

import dataclasses
import json
import os
import sys
import tempfile
from pathlib import Path

from geoact.experiments import catalogue, local, plan
from geoact.machine import available_cores
from geoact.storage import runs

RESULTS = Path(__file__).parents[1] / "results" / "sweeps"


def milliseconds(path: Path) -> float:
    """Time of one vector step over the second half of a run."""
    run = runs.Run(path)
    rows = [row for row in run.metrics() if row["step"] >= run.config().timesteps / 2]
    steps = (rows[-1]["step"] - rows[0]["step"]) / run.config().num_envs
    return 1000 * (rows[-1]["time/elapsed"] - rows[0]["time/elapsed"]) / steps


def train(experiment: catalogue.Experiment, transitions: int, jobs: int) -> dict[str, float]:
    """Milliseconds per vector step of every run of an experiment."""
    with tempfile.TemporaryDirectory() as folder:
        work = local.inspect(plan.plan(experiment, transitions), Path(folder))
        if not local.LocalSweep(work, jobs).run(lambda sweep: None):
            raise SystemExit(f"a run failed: {[job.reason for job in work if job.reason]}")
        return {job.planned.name: milliseconds(job.path) for job in work}


def parallel(rounds: int = 3, transitions: int = 16_000) -> dict[str, object]:
    """One run alone and as many at once as there are cores, in turns."""
    cores = len(available_cores())
    table1 = catalogue.EXPERIMENTS["table1"]
    alone = catalogue.select(table1, ["HalfCheetah-v4"], ["gac"], "1")
    together = dataclasses.replace(alone, seeds=tuple(range(cores)))
    found: list[dict[str, float]] = []
    for _ in range(rounds):
        one = max(train(alone, transitions, 1).values())
        many = max(train(together, transitions, cores).values())
        found.append({"alone_ms": one, "together_ms": many, "ratio": many / one})
    ratios = sorted(entry["ratio"] for entry in found)
    return {
        "cores": cores,
        "transitions": transitions,
        "rounds": found,
        "median_ratio": ratios[len(ratios) // 2],
    }


def tasks(transitions: int = 8_000) -> dict[str, object]:
    """Every task of Tables 1 and 2, off-policy and PPO, one run per core at a time."""
    found: dict[str, float] = {}
    for name, variants in (("table1", ["gac", "ppo"]), ("table2", ["gac-scale", "ppo"])):
        chosen = catalogue.select(catalogue.EXPERIMENTS[name], None, variants, "1")
        found |= train(chosen, transitions, len(available_cores()))
    return {"transitions": transitions, "milliseconds_per_vector_step": found}


if __name__ == "__main__":
    what = {"parallel": parallel, "tasks": tasks}[sys.argv[1]]
    load = os.getloadavg()[0]
    result = {"load_average_before": load, **what()}
    (RESULTS / f"{sys.argv[1]}.json").write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))
