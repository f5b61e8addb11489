"""The paper's published numbers, as data: every place that compares with them reads them here."""

import json
from importlib.resources import files
from typing import Any


def paper_numbers() -> dict[str, Any]:
    """The content of paper.json."""
    return json.loads(files("geoact.experiments").joinpath("paper.json").read_text(encoding="utf-8"))


def _gac(numbers: dict[str, Any], task: str) -> tuple[float, float]:
    mean, deviation = (numbers["table1_mujoco"] | numbers["table2_dmcontrol"])[task]["gac"]
    return mean, deviation


def paper_mean(task: str) -> float:
    """GAC's final training return on one of the paper's tasks."""
    return _gac(paper_numbers(), task)[0]


def paper_return(task: str) -> str:
    """`1,952 ± 285 (1,000,000)`: GAC's final training return on one of the paper's tasks, and its vector steps."""
    numbers = paper_numbers()
    mean, deviation = _gac(numbers, task)
    protocol = numbers["protocol"]
    steps = protocol["vector_steps_exceptions"].get(task, protocol["vector_steps"])
    return f"{mean:,} ± {deviation:,} ({steps:,})"
