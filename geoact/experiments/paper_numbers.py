"""The paper's published numbers, as data: every place that compares with them reads them here."""

import json
from importlib.resources import files
from typing import Any


def paper_numbers() -> dict[str, Any]:
    """The content of paper.json."""
    return json.loads(files("geoact.experiments").joinpath("paper.json").read_text(encoding="utf-8"))


def paper_return(task: str, method: str = "gac") -> str:
    """`1,952 ± 285`: the paper's final training return on one of its twelve tasks, by its name there."""
    numbers = paper_numbers()
    mean, deviation = (numbers["table1_mujoco"] | numbers["table2_dmcontrol"])[task][method]
    return f"{mean:,} ± {deviation:,}"


def paper_vector_steps(task: str) -> int:
    """How long the paper trains on it."""
    protocol = paper_numbers()["protocol"]
    return protocol["vector_steps_exceptions"].get(task, protocol["vector_steps"])
