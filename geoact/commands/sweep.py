"""`geoact sweep`."""

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from geoact.commands._console import unbreakable
from geoact.commands._options import ExecutorOptions
from geoact.errors import STOPPED
from geoact.experiments.sweep import Selection, describe, plan_sweep, run_sweep


@dataclass(frozen=True)
class Sweep(ExecutorOptions, Selection):
    """Run an experiment of the paper, or your own, on all cores.

    The same command again goes on where it stopped, however it was stopped: finished runs are kept.
    """

    experiment: Positional[str]
    """table1, table2, table3, tableA2, beyond, weight, evidence, fast, long, recipe, growing, baselines,
    or a .toml file."""
    _: KW_ONLY
    runs_dir: Annotated[Path | None, arg(aliases=("--out",))] = None
    """Directory in which the runs' own are made. Without it: sweeps/EXPERIMENT."""
    retry_failed: bool = False
    """Start failed runs again."""
    dry_run: bool = False
    """Only show the runs."""
    quiet: bool = False
    """Print nothing but failures and the sweep's directory."""


def run(options: Sweep) -> int:
    """Plan, run and tell; 0 if every run is finished."""
    with unbreakable():
        return _sweep(options)


def _sweep(options: Sweep) -> int:
    if options.dry_run:
        chosen, runs = plan_sweep(options.experiment, options)
        print(describe(chosen, runs))
        for planned in runs:
            print(f"  {planned.name}")
        return 0
    outcome = run_sweep(
        options.experiment,
        options,
        options.runs_dir,
        options.jobs,
        options.retry_failed,
        options.cluster(),
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
