"""A sweep from its name to its end: what `geoact sweep` does, as functions.

outcome = run_sweep("table1", Selection(budget="0.01", seeds="2"))
outcome.complete, outcome.out
"""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from geoact.errors import InputError
from geoact.experiments import catalogue, local
from geoact.experiments import plan as planning
from geoact.experiments.catalogue import Experiment
from geoact.experiments.local import Job
from geoact.experiments.plan import PlannedRun
from geoact.machine import available_cores

PPOBudget = Literal["vector-steps", "transitions"]


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Which part of an experiment, and how long its runs are; texts as they are typed on the command line."""

    budget: str | None = None
    """Length of each run: a fraction of the full one (0.01) or a number of transitions (80000)."""
    seeds: str | None = None
    """How many of the experiment's seeds (2), or which (0,10; one alone: 42,)."""
    tasks: tuple[str, ...] | None = None
    """Only these environments."""
    algorithms: tuple[str, ...] | None = None
    """Only these algorithms (the labels of the experiment's variants)."""
    ppo_budget: PPOBudget = "vector-steps"
    """What the paper's steps count for PPO: vector steps, as for the others, or transitions, as in CleanRL."""


@dataclass(frozen=True)
class Cluster:
    """A Ray cluster to run on."""

    address: str | None = None
    """For example auto or 10.0.0.1:6379; None starts one here."""
    storage: str | None = None
    """Where Ray keeps copies of the runs, a path or address that every node can reach."""
    copy_every: float = 300.0
    """Seconds between these copies."""


@dataclass(frozen=True)
class SweepOutcome:
    """What has become of a sweep."""

    out: Path
    jobs: list[Job]
    stopped: bool
    """Whether it was asked to end early."""

    @property
    def complete(self) -> bool:
        """Whether every run is finished."""
        return all(job.state == "finished" for job in self.jobs)

    @property
    def failed(self) -> list[Job]:
        """The runs that failed."""
        return [job for job in self.jobs if job.state == "failed"]


def plan_sweep(
    experiment: str | Experiment, selection: Selection | None = None
) -> tuple[Experiment, list[PlannedRun]]:
    """The selected part of an experiment (its name, a .toml file, or a record of one) and its runs."""
    selection = selection or Selection()
    found = planning.find(experiment) if isinstance(experiment, str) else experiment
    found = catalogue.read_ppo_budget(found, selection.ppo_budget)
    chosen = catalogue.select(found, selection.tasks, selection.algorithms, selection.seeds)
    return chosen, planning.plan(chosen, catalogue.parse_budget(selection.budget))


def run_sweep(
    experiment: str | Experiment,
    selection: Selection | None = None,
    out: Path | None = None,
    jobs: int = 0,
    retry_failed: bool = False,
    cluster: Cluster | None = None,
    say: Callable[[str], None] = print,
    show: bool = True,
) -> SweepOutcome:
    """Run an experiment, or go on with it; `say` takes what there is to tell, line by line, `show` its progress.

    `out` defaults to sweeps/EXPERIMENT, `jobs` (runs at a time) to the number of cores. Without a cluster the
    runs are processes on this machine.
    """
    cores = len(available_cores())
    if jobs < 0:
        raise InputError(f"jobs must be 0 or more, got {jobs}")
    chosen, runs = plan_sweep(experiment, selection)
    out = out or Path("sweeps") / chosen.name
    say(describe(chosen, runs))
    if jobs > cores:
        say(f"note: {jobs} jobs share {cores} cores")
    with local.held(out):
        work = local.inspect(runs, out, retry_failed)
        planning.note_labels(out, chosen, runs)
        running = local.LocalSweep(work, jobs or cores)
        if cluster is not None:
            from geoact.experiments import cluster as ray_cluster

            ray_cluster.run(work, out, cluster.address, cluster.storage, cluster.copy_every)
        else:
            with local.Display() if show else contextlib.nullcontext(lambda sweep: None) as display:
                running.run(display)
    outcome = SweepOutcome(out, work, running.stopping)
    for job in outcome.failed:
        say(f"failed: {job.planned.name}: {job.reason}")
    if outcome.failed and not retry_failed:
        say("failed runs are started again with --retry-failed")
    say(local.summary(running))
    return outcome


def describe(experiment: Experiment, runs: list[PlannedRun]) -> str:
    """One line on a sweep before it starts."""
    total = sum(run.config.timesteps for run in runs)
    return f"{experiment.title}: {len(runs)} runs, {total:,} transitions in all"
