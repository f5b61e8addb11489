"""`geoact tune`."""

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from geoact.commands._console import unbreakable
from geoact.commands._options import Algorithm, ExecutorOptions
from geoact.config import DEFAULT_ALGORITHM
from geoact.errors import STOPPED
from geoact.experiments.tuning import Search, run_search


@dataclass(frozen=True)
class Tune(ExecutorOptions, Search):
    """Search for better settings of an algorithm on an environment.

    The result is a configuration for geoact train --config. The same command again goes on where it stopped, however
    it was stopped; with more --trials it searches on.
    """

    env: Positional[str]
    """A Gymnasium id (HalfCheetah-v5), a DMControl task (walker-run) or one of your own (my_package:MyEnv-v0)."""
    _: KW_ONLY
    algorithm: Algorithm = DEFAULT_ALGORITHM
    runs_dir: Annotated[Path | None, arg(aliases=("--out",))] = None
    """Directory of the search. Without it: tune/ENV__ALGORITHM."""
    quiet: bool = False
    """Print nothing but the search's directory, and the configuration if one was found."""

    def __post_init__(self) -> None:
        ExecutorOptions.__post_init__(self)
        Search.__post_init__(self)


def run(options: Tune) -> int:
    """Search, draw what was found, and tell; 0 if the search came to its end."""
    with unbreakable():
        return _tune(options)


def _tune(options: Tune) -> int:
    from geoact.report import searches

    outcome = run_search(
        options,
        options.runs_dir,
        options.jobs,
        options.cluster(),
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
