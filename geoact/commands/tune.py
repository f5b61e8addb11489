"""`geoact tune`."""

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from geoact.commands._console import unbreakable
from geoact.commands._options import Algorithm
from geoact.errors import STOPPED, InputError


@dataclass(frozen=True)
class Tune:
    """Search for better settings of an algorithm on an environment.

    The result is a configuration for geoact train --config. The same command again goes on where it stopped, however
    it was stopped; with more --trials it searches on.
    """

    env: Positional[str]
    """A Gymnasium id (HalfCheetah-v5), a DMControl task (walker-run) or one of your own (my_package:MyEnv-v0)."""
    _: KW_ONLY
    algorithm: Algorithm = "gac"
    trials: int = 50
    """Runs with different settings; the first has the default ones."""
    timesteps: int = 100_000
    """Transitions of each run, over all environments together."""
    seed: int = 0
    """Seed of the runs and of what is suggested."""
    num_envs: int = 8
    """Environments stepped together in each run."""
    evaluations: int = 10
    """Evaluations during each run, each a chance to prune it."""
    eval_episodes: int = 5
    """Episodes per evaluation."""
    confirm: int = 3
    """Seeds on which the best trial and the default are compared at the end. 0: take the search's word for it."""
    pruner: Literal["median", "halving", "none"] = "median"
    """Which runs are ended early. median: those below the median at the same step; halving: all but the best quarter
    at each stage."""
    space: Path | None = None
    """A TOML file with the settings to try (as geoact/experiments/spaces.toml), instead of the library's own."""
    jobs: int = 0
    """Runs at a time, each on a core of its own. 0: as many as there are cores."""
    runs_dir: Annotated[Path | None, arg(aliases=("--out",))] = None
    """Directory of the search. Without it: tune/ENV__ALGORITHM."""
    executor: Literal["local", "ray"] = "local"
    """local: processes on this machine; ray: a Ray cluster (pip install 'geoact[ray]')."""
    address: str | None = None
    """Address of the Ray cluster, for example auto or 10.0.0.1:6379. Without it one is started here."""
    storage: str | None = None
    """Where Ray keeps copies of the runs: a path or an address that every machine can reach."""
    copy_every: float = 300.0
    """Seconds between these copies."""
    quiet: bool = False
    """Print nothing but the search's directory, and the configuration if one was found."""

    def __post_init__(self) -> None:
        if self.jobs < 0:
            raise InputError(f"jobs must be 0 or more, got {self.jobs}")
        if not self.copy_every > 0:
            raise InputError(f"copy-every must be greater than 0, got {self.copy_every}")


def run(options: Tune) -> int:
    """Search, draw what was found, and tell; 0 if the search came to its end."""
    with unbreakable():
        return _tune(options)


def _tune(options: Tune) -> int:
    from geoact.experiments.sweep import Cluster
    from geoact.experiments.tuning import Search, run_search
    from geoact.report import searches

    search = Search(
        options.env,
        options.algorithm,
        options.trials,
        options.timesteps,
        options.seed,
        options.num_envs,
        options.evaluations,
        options.eval_episodes,
        options.confirm,
        options.pruner,
        options.space,
    )
    ray = Cluster(options.address, options.storage, options.copy_every)
    outcome = run_search(
        search,
        options.runs_dir,
        options.jobs,
        ray if options.executor == "ray" else None,
        say=(lambda line: None) if options.quiet else _say,
    )
    searches.draw(outcome.out)
    print(f"search: {outcome.out}", flush=True)
    if options.quiet and outcome.best is not None:
        print(f"best: {outcome.best}")
    if outcome.stopped:
        print("stopped: the same command again continues it")
        return STOPPED
    return 0


def _say(line: str) -> None:
    print(line, flush=True)
