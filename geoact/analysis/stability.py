"""kappa over training: the runaway of the paper's rule as written, and what cures it.

With kappa free, the paper's exploration bonus `-kappa` has no bound: the policy's objective is larger for kappa near
minus infinity than for any good action, the critic's values follow, and nothing is learned. Four forms,
each a short run of the library's own training on one task:

- free        kappa from its head as it is, bonus `-kappa`: the paper's text to the letter
- softplus    kappa >= 0, bonus `-kappa`: the default
- published   the form inside the paper's published checkpoints, bounded to kappa in about (0, 10.7)
- entropy     kappa free, the exact entropy as bonus, which is bounded above, its weight tuned

A run that diverges ends where the library stops it. One seed, a short budget: this shows what is stable, and
ranks nothing.
"""

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np

from geoact.config import GACConfig, RunConfig
from geoact.errors import TrainingFailed
from geoact.report import style
from geoact.report.tables import Value, csv_text, write_table
from geoact.storage.files import write_bytes

FORMS = {
    "free": GACConfig(concentration="free"),
    "softplus": GACConfig(),
    "published": GACConfig(concentration="published", normalize_mixture=False),
    "entropy": GACConfig(exploration="entropy"),
}
CURVES = {
    "updates": "updates",
    "kappa": "policy/kappa",
    "kappa_min": "policy/kappa_min",
    "kappa_max": "policy/kappa_max",
    "weight": "policy/weight",
    "value": "losses/qf_values",
    "alpha": "losses/alpha",
    "return": "charts/episodic_return",
}

Metrics = dict[str, float]
"""One logged row."""


@dataclasses.dataclass(frozen=True)
class Course:
    """What one form did."""

    rows: list[Metrics]
    ended: str
    evaluation: float | None


def train_form(settings: GACConfig, env: str, timesteps: int, seed: int) -> Course:
    """A short training without a run directory."""
    from geoact import environments
    from geoact.training.session import Session

    config = RunConfig(
        env=env, algorithm="gac", settings=settings, timesteps=timesteps, seed=seed, threads=1, evaluations=1
    )
    rows: list[Metrics] = []
    ended = "completed"
    with Session(config, environments.factory(env)) as session:
        try:
            session.train(lambda row: rows.append(row))
        except TrainingFailed as error:
            ended = str(error)
    evaluation = next((row["eval/return_mean"] for row in reversed(rows) if "eval/return_mean" in row), None)
    return Course([row for row in rows if "policy/kappa" in row], ended, evaluation)


def run(out: Path, seed: int = 0, env: str = "HalfCheetah-v5", timesteps: int = 60_000) -> list[Path]:
    """Train the four forms one after another; write the table, the curves and the figure."""
    courses = {name: train_form(settings, env, timesteps, seed) for name, settings in FORMS.items()}
    rows: list[list[Value]] = []
    for name, course in courses.items():
        last = course.rows[-1] if course.rows else {}
        lowest = min((row["policy/kappa_min"] for row in course.rows), default=math.nan)
        rows.append(
            [
                name,
                int(last.get("updates", 0)),
                last.get("policy/kappa"),
                lowest,
                last.get("policy/weight"),
                last.get("losses/qf_values"),
                course.evaluation,
                course.ended,
            ]
        )
    columns = ["form", "updates", "mean kappa", "lowest kappa", "mean w", "mean Q", "evaluation", "ended"]
    formats = {
        "mean kappa": ".3g",
        "lowest kappa": ".3g",
        "mean w": ".3f",
        "mean Q": ".3g",
        "evaluation": ",.0f",
    }
    files = write_table(
        out / "stability",
        f"Four forms of the concentration on {env}",
        columns,
        rows,
        f"{timesteps:,} transitions, 8 environments, seed {seed}, one thread (bit-reproducible on one kind of "
        "machine). The last logged values; evaluation: 10 deterministic episodes at the end.",
        formats,
    )
    table: list[list[Value]] = [
        [name, *(row.get(metric) for metric in CURVES.values())]
        for name, course in courses.items()
        for row in course.rows
    ]
    curves = out / "stability_curves.csv"
    write_bytes(curves, csv_text(["form", *CURVES], table).encode())
    with style.drawing():
        return [*files, curves, *_figure(out, env, courses)]


def _figure(out: Path, env: str, courses: dict[str, Course]) -> list[Path]:
    figure = style.new_figure(10.4, 3.5)
    kappa, value, returns = figure.subplots(1, 3)
    # Dashes where two forms lie on each other.
    looks = {"free": (1, "-"), "softplus": (0, "-"), "published": (2, "--"), "entropy": (3, "-")}
    for name, course in courses.items():
        color, line = style.COLORS[looks[name][0]], looks[name][1]
        x = _series(course.rows, "updates")
        kappa.plot(x, _series(course.rows, "policy/kappa"), line, color=color, label=name)
        low, high = (_series(course.rows, f"policy/kappa_{end}") for end in ("min", "max"))
        kappa.fill_between(x, low, high, color=color, alpha=0.15, lw=0)
        value.plot(x, _series(course.rows, "losses/qf_values"), line, color=color, label=name)
        scored = [row for row in course.rows if "charts/episodic_return" in row]
        returns.plot(
            _series(scored, "updates"),
            _series(scored, "charts/episodic_return"),
            "o-",
            ms=2.5,
            color=color,
            label=name,
        )
        if course.ended != "completed" and len(x):
            kappa.plot(x[-1], _series(course.rows, "policy/kappa")[-1], "x", color=color, ms=8)
            value.plot(x[-1], _series(course.rows, "losses/qf_values")[-1], "x", color=color, ms=8)
    kappa.set_yscale("symlog", linthresh=1)
    kappa.set(title=r"$\kappa$ (mean; band: range in the batch)", ylabel=r"$\kappa$")
    value.set_yscale("symlog", linthresh=100)
    value.set(title="critic's mean value", ylabel="Q")
    returns.set(title="training return", ylabel="return")
    for axis in (kappa, value, returns):
        axis.set_xlabel("updates")
        axis.legend()
    figure.suptitle(f"{env}, one seed; x: stopped, diverged", fontsize=10)
    return style.save_figure(figure, out / "stability")


def _series(rows: list[Metrics], name: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.array([row.get(name, math.nan) for row in rows], np.float64)
