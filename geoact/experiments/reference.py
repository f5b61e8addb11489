"""The two ends of a task's normalised score: what random actions earn, and what the paper's GAC ends with.

The first is measured here (`geoact analyze chance`, whose table this package holds), the second is its published
training return.
"""

import csv
import functools
from importlib.resources import files

from geoact.experiments.paper_numbers import paper_mean


@functools.cache
def random_returns() -> dict[str, float]:
    """Mean return of random actions on each of the paper's tasks."""
    text = files("geoact.experiments").joinpath("chance.csv").read_text(encoding="utf-8")
    return {row["task"]: float(row["mean return"]) for row in csv.DictReader(text.splitlines())}


def reference(task: str) -> tuple[float, float] | None:
    """The returns that are 0 and 1 in normalised scores; None of a task that is not the paper's."""
    chance = random_returns().get(task)
    return None if chance is None else (chance, paper_mean(task))
