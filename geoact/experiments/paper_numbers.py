"""The paper's published numbers, as data: every place that compares with them reads them here."""

import json
from dataclasses import dataclass
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


def paper_vector_steps(task: str) -> int:
    """How long the paper's runs on one of its tasks are."""
    protocol = paper_numbers()["protocol"]
    return protocol["vector_steps_exceptions"].get(task, protocol["vector_steps"])


def paper_return(task: str) -> str:
    """`1,952 ± 285 (1,000,000)`: GAC's final training return on one of the paper's tasks, and its vector steps."""
    mean, deviation = _gac(paper_numbers(), task)
    return f"{mean:,} ± {deviation:,} ({paper_vector_steps(task):,})"


@dataclass(frozen=True)
class PaperScale:
    """What the paper says of the learned scale on a task; nothing where it says nothing."""

    mean: str = ""
    """In the end."""
    rise: str = ""
    """From the beginning to the end."""
    deviation: str = ""
    """Over dimensions."""


def paper_scale(task: str) -> PaperScale:
    """The paper's learned scale: Figure A.3 for the DMControl tasks, Table A.2 for Walker2d."""

    def text(low_high: list[float]) -> str:
        low, high = low_high
        return f"{low:g}" if low == high else f"{low:g} to {high:g}"

    numbers = paper_numbers()
    walker2d, final = numbers["tableA2_walker2d_500k"], numbers["figureA3_scale_convergence"]
    if task == "Walker2d-v4":
        return PaperScale(
            f"{walker2d['adaptive_mean_scale']:g}", deviation=text(walker2d["adaptive_scale_std"])
        )
    if not isinstance(final.get(task), list):
        return PaperScale()
    rise = final["rises"].get(task)
    return PaperScale(text(final[task]), text(rise) if rise else "")
