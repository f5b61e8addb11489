"""The side studies by name: what `geoact analyze` does, as a function.

analyze("concentration", Path("analysis"))
analyze("saturation", Path("analysis"), [Path("runs/HalfCheetah-v5__sac__s0__...")])
"""

import importlib
from dataclasses import dataclass
from pathlib import Path

from geoact.config import unknown
from geoact.errors import InputError


@dataclass(frozen=True)
class Study:
    """One of the modules beside this one; its `run(out, ..., seed)` writes tables and figures."""

    about: str
    reads_runs: bool = False
    """Whether it looks at trained runs, or policies, that it must be given."""


STUDIES: dict[str, Study] = {
    "concentration": Study("how kappa gathers the actions around the direction"),
    "entropy": Study("the exact entropy, and what stands in for it"),
    "sampling": Study("time per sample against von Mises-Fisher and tanh-Gaussian"),
    "cost": Study("time per action and per update, and numbers of parameters"),
    "saturation": Study("coordinates without gradient, of given runs or policies", reads_runs=True),
    "length": Study("how long actions are, of given runs or policies", reads_runs=True),
    "kappa": Study(
        "the concentration over states and over training, of given runs or policies", reads_runs=True
    ),
    "scales": Study("the learned scale over given runs, or directories of them", reads_runs=True),
    "stability": Study("four forms of kappa, trained briefly (minutes)"),
    "chance": Study("what random actions earn on the paper's tasks, the zero of normalised scores (minutes)"),
}


def check(study: str, runs: list[Path]) -> None:
    """Refuse a study that does not exist, or that cannot be made from these runs."""
    if study not in STUDIES:
        raise InputError(unknown("study", study, list(STUDIES)))
    if STUDIES[study].reads_runs and not runs:
        raise InputError(f"geoact analyze {study} needs the runs to look at: geoact analyze {study} RUN ...")
    if runs and not STUDIES[study].reads_runs:
        raise InputError(f"geoact analyze {study} takes no runs, got {runs[0]}")


def analyze(study: str, out: Path, runs: list[Path] | None = None, seed: int = 0) -> list[Path]:
    """Make a study: the files written. Set the number of threads first (timings are for one)."""
    runs = list(runs or [])
    check(study, runs)
    module = importlib.import_module(f"geoact.analysis.{study}")
    arguments = {"runs": runs} if STUDIES[study].reads_runs else {}
    return module.run(out, seed=seed, **arguments)
