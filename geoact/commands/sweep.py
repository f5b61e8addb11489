"""`geoact sweep`."""

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from geoact.commands._console import unbreakable
from geoact.errors import STOPPED, InputError


@dataclass(frozen=True)
class Sweep:
    """Run an experiment of the paper, or your own, on all cores.

    The same command again goes on where it stopped, however it was stopped: finished runs are kept.
    """

    experiment: Positional[str]
    """table1, table2, table3, tableA2, beyond, weight, evidence, recipe, baselines, or a .toml file."""
    _: KW_ONLY
    budget: str | None = None
    """Length of each run: a fraction of the full one (0.01) or a number of transitions (80000)."""
    seeds: str | None = None
    """How many of the experiment's seeds (2), or which (0,10; one alone: 42,)."""
    tasks: tuple[str, ...] | None = None
    """Only these environments."""
    algorithms: tuple[str, ...] | None = None
    """Only these algorithms (the labels of the experiment's variants)."""
    ppo_budget: Literal["vector-steps", "transitions"] = "vector-steps"
    """What the paper's steps count for PPO: vector steps, as for the others, or transitions, as in CleanRL."""
    jobs: int = 0
    """Runs at a time, each on a core of its own. 0: as many as there are cores."""
    runs_dir: Annotated[Path | None, arg(aliases=("--out",))] = None
    """Directory in which the runs' own are made. Without it: sweeps/EXPERIMENT."""
    retry_failed: bool = False
    """Start failed runs again."""
    dry_run: bool = False
    """Only show the runs."""
    executor: Literal["local", "ray"] = "local"
    """local: processes on this machine; ray: a Ray cluster (pip install 'geoact[ray]')."""
    address: str | None = None
    """Address of the Ray cluster, for example auto or 10.0.0.1:6379. Without it one is started here."""
    storage: str | None = None
    """Where Ray keeps copies of the runs: a path or an address that every machine can reach."""
    copy_every: float = 300.0
    """Seconds between these copies."""
    quiet: bool = False
    """Print nothing but failures and the sweep's directory."""

    def __post_init__(self) -> None:
        if self.jobs < 0:
            raise InputError(f"jobs must be 0 or more, got {self.jobs}")
        if not self.copy_every > 0:
            raise InputError(f"copy-every must be greater than 0, got {self.copy_every}")


def run(options: Sweep) -> int:
    """Plan, run and tell; 0 if every run is finished."""
    with unbreakable():
        return _sweep(options)


def _sweep(options: Sweep) -> int:
    from geoact.experiments.sweep import Cluster, Selection, describe, plan_sweep, run_sweep

    selection = Selection(
        options.budget, options.seeds, options.tasks, options.algorithms, options.ppo_budget
    )
    if options.dry_run:
        chosen, runs = plan_sweep(options.experiment, selection)
        print(describe(chosen, runs))
        for planned in runs:
            print(f"  {planned.name}")
        return 0
    ray = Cluster(options.address, options.storage, options.copy_every)
    outcome = run_sweep(
        options.experiment,
        selection,
        options.runs_dir,
        options.jobs,
        options.retry_failed,
        ray if options.executor == "ray" else None,
        say=(lambda line: None) if options.quiet else print,
        show=not options.quiet,
    )
    if options.quiet:
        for job in outcome.failed:
            print(f"failed: {job.planned.name}: {job.reason}")
    print(f"sweep: {outcome.out}", flush=True)
    if outcome.stopped:
        print("stopped: the same command again continues it")
        return STOPPED
    return 0 if outcome.complete else 1
