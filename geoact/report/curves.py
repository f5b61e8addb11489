"""Learning curves: of single runs, of variants over their seeds, and of the learned scale."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from geoact.errors import InputError
from geoact.experiments.catalogue import ExperimentTask
from geoact.experiments.paper_numbers import paper_mean, paper_numbers
from geoact.report import style
from geoact.report.collect import RunData, RunGroup, Score, read_run
from geoact.storage.runs import SCALE_DEVIATION, Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase
    from matplotlib.lines import Line2D

FORMATS = (".png", ".svg", ".pdf")
ACROSS = 4
"""Panels beside each other where there is one for every task of the paper."""
RETURNS: dict[Score, tuple[str, str]] = {
    "training": ("charts/episodic_return", "return (training)"),
    "eval": ("eval/return_mean", "return (deterministic)"),
}
"""Score -> the metric of its curve and what the axis says."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Curve:
    """A metric over runs."""

    steps: Floats
    mean: Floats
    std: Floats
    """Sample standard deviation over runs; nan where one run is left."""
    runs: int


def curve(runs: list[RunData], metric: str) -> Curve | None:
    """A metric's mean over runs; None where no run has it.

    A run counts between its own first and last value; between its points it is interpolated.
    """
    lines: list[Floats] = []
    for run in runs:
        points = [(row["step"], value) for row, value in run.series(metric)]
        if points:
            lines.append(np.asarray(points, np.float64).T)
    if not lines:
        return None
    steps = np.unique(np.concatenate([line[0] for line in lines]))
    values = np.full((len(lines), steps.size), np.nan)
    for i, (x, y) in enumerate(lines):
        inside = (steps >= x[0]) & (steps <= x[-1])
        values[i, inside] = np.interp(steps[inside], x, y)
    there = ~np.isnan(values)
    count = there.sum(axis=0)
    mean = np.where(there, values, 0.0).sum(axis=0) / np.maximum(count, 1)
    squares = np.where(there, (values - mean) ** 2, 0.0).sum(axis=0)
    std = np.where(count > 1, np.sqrt(squares / np.maximum(count - 1, 1)), np.nan)
    keep = count > 0
    return Curve(steps[keep], mean[keep], std[keep], len(lines))


def plot_curve(axis: "Axes", found: Curve, label: str, color: str) -> None:
    """A curve, shaded by the standard deviation over runs."""
    marker = "o" if len(found.steps) <= 25 else None
    text = f"{label} ({found.runs} seed{'s' * (found.runs > 1)})"
    axis.plot(found.steps, found.mean, color=color, label=style.plain(text), marker=marker, ms=3)
    low, high = found.mean - found.std, found.mean + found.std
    axis.fill_between(found.steps, low, high, color=color, alpha=0.18, lw=0)


def plot_task(
    axis: "Axes",
    task: str,
    groups: Mapping[tuple[str, str], RunGroup],
    metric: str,
    colors: Mapping[str, str],
) -> None:
    """One panel: the curves of all variants on a task."""
    drawn = False
    for label, color in colors.items():
        group = groups.get((task, label))
        found = curve(group.counted(), metric) if group is not None else None
        if found is not None:
            plot_curve(axis, found, label, color)
            drawn = True
    axis.xaxis.set_major_formatter(style.thousands)
    if not drawn:
        _nothing(axis, "no runs")


def plot_tasks(
    part: "FigureBase",
    tasks: Sequence[ExperimentTask],
    groups: Mapping[tuple[str, str], RunGroup],
    kind: Score,
    colors: Mapping[str, str],
) -> "list[Axes]":
    """A panel for every task, with the curves of all variants; the panels, in order."""
    metric, ylabel = RETURNS[kind]
    panels = list(part.subplots(*shape_of_panels(tasks), squeeze=False).ravel())
    for panel, task in zip(panels, tasks):
        plot_task(panel, task.name, groups, metric, colors)
        panel.set_title(style.plain(f"{task.name} (run as {task.env})" if task.note else task.name))
    for panel in panels[len(tasks) :]:
        panel.remove()
    part.supxlabel("transitions", fontsize=9)
    part.supylabel(ylabel, fontsize=9)
    return panels[: len(tasks)]


def mark_papers_return(panels: "Sequence[Axes]", tasks: Sequence[ExperimentTask]) -> "tuple[Line2D, str]":
    """The paper's final return as a line in every panel that has curves; the line and its name, for a legend."""
    from matplotlib.lines import Line2D

    look: dict[str, Any] = {"color": "0.35", "lw": 1.0, "ls": "--"}
    for panel, task in zip(panels, tasks, strict=True):
        if panel.lines:
            panel.axhline(paper_mean(task.name), **look)
    return Line2D([], [], **look), "the paper's GAC in training, at its full length"


def shape_of_panels(tasks: Sequence[ExperimentTask]) -> tuple[int, int]:
    """How many rows of panels the tasks take, and how many are beside each other, at most `ACROSS`."""
    return -(-len(tasks) // ACROSS), min(ACROSS, len(tasks))


def _nothing(axis: "Axes", text: str) -> None:
    axis.text(0.5, 0.5, text, transform=axis.transAxes, ha="center", color="0.5")
    axis.set(xticks=[], yticks=[])


def draw_curves(
    stem: Path,
    title: str,
    groups: Mapping[tuple[str, str], RunGroup],
    kind: Score,
    names: Mapping[str, str] | None = None,
) -> list[Path]:
    """Learning curves, one panel per task, shaded by the standard deviation over seeds; `names`: panel titles."""
    metric, ylabel = RETURNS[kind]
    tasks = list(dict.fromkeys(task for task, _ in groups))
    across = min(3, len(tasks))
    down = -(-len(tasks) // across)
    with style.drawing():
        figure = style.new_figure(max(5.2, 3.6 * across), 2.9 * down + 0.4)
        axes = figure.subplots(down, across, squeeze=False).ravel()
        colors = style.colors_of(dict.fromkeys(label for _, label in groups))
        for axis, task in zip(axes, tasks):
            plot_task(axis, task, groups, metric, colors)
            axis.set(title=style.plain((names or {}).get(task, task)), xlabel="transitions", ylabel=ylabel)
            if axis.get_legend_handles_labels()[0]:
                axis.legend()
        for axis in axes[len(tasks) :]:
            axis.remove()
        figure.suptitle(style.plain(f"{title}\nmean, shaded: ± standard deviation over seeds"), fontsize=9)
        return style.save_figure(figure, stem)


def draw_scales(
    stem: Path,
    title: str,
    groups: Mapping[tuple[str, str], RunGroup],
    returns: Mapping[tuple[str, str], RunGroup] | None = None,
    kind: Score = "training",
) -> list[Path]:
    """The learned scale over training: mean, and standard deviation over the action's dimensions.

    One curve per task, or per variant where a task has several. `returns`: variants of one task whose learning curves
    make a first panel. The paper's final values are drawn beside ours. The deviation is over dimensions, as the paper's
    is; runs of version 0.1 have not logged it.
    """
    tasks = list(dict.fromkeys(task for task, _ in groups))
    learned = {
        task if len(groups) == len(tasks) else label: group
        for (task, label), group in groups.items()
        if any(run.series("policy/scale") for run in group.counted())
    }
    published = paper_numbers()
    final = {task: published["figureA3_scale_convergence"].get(task) for task in tasks}
    with style.drawing():
        figure = style.new_figure(9.6 if returns is None else 13.2, 3.6)
        panels = figure.subplots(1, 2 if returns is None else 3)
        left, right = panels[-2:]
        if returns is not None:
            metric, ylabel = RETURNS[kind]
            colors = style.colors_of(dict.fromkeys(label for _, label in returns))
            plot_task(panels[0], next(iter(returns))[0], returns, metric, colors)
            panels[0].set(title="(a)", xlabel="transitions", ylabel=ylabel)
            left.set_title("(b)")
            right.set_title("(c)")
            if panels[0].get_lines():
                panels[0].legend()
        for (name, group), color in zip(learned.items(), _cycle(len(learned))):
            runs = group.counted()
            for axis, found in ((left, curve(runs, "policy/scale")), (right, curve(runs, SCALE_DEVIATION))):
                if found is not None:
                    plot_curve(axis, found, name, color)
            if final[group.task]:
                edge = left.get_yaxis_transform()
                left.plot([1.01] * 2, final[group.task], transform=edge, color=color, lw=3, clip_on=False)
        if any(group.task == "Walker2d-v4" for group in learned.values()):
            paper = published["tableA2_walker2d_500k"]
            left.axhline(paper["adaptive_mean_scale"], color="0.4", ls="--", lw=1, label="paper's mean scale")
            right.axhspan(
                *paper["adaptive_scale_std"], color="0.6", alpha=0.25, lw=0, label="paper's deviation"
            )
        left.set(xlabel="transitions", ylabel="mean of the learned scale r")
        right.set(xlabel="transitions", ylabel="deviation of r over dimensions")
        for axis, text in (
            (left, "no runs with a learned scale"),
            (right, "no runs with a deviation over dimensions"),
        ):
            axis.xaxis.set_major_formatter(style.thousands)
            if axis.get_lines():
                axis.legend()
            else:
                _nothing(axis, text)
        marks = "; bars at the right edge: the paper's final range" if any(final.values()) else ""
        figure.suptitle(
            style.plain(f"{title}\nmean over seeds, shaded: ± standard deviation over seeds{marks}"),
            fontsize=9,
        )
        return style.save_figure(figure, stem)


def _cycle(count: int) -> list[str]:
    return [style.COLORS[i % len(style.COLORS)] for i in range(count)]


def draw_runs(runs: list[Run], out: Path) -> None:
    """Single runs, one panel per environment, one colour per run. What `geoact plot` does."""
    if out.suffix not in FORMATS:
        raise InputError(f"cannot draw into {out.name}: use a name that ends in .png, .svg or .pdf")
    by_task: dict[str, list[RunData]] = {}
    for run in runs:
        read = read_run(run.path)
        by_task.setdefault(read.task, []).append(read)
    with style.drawing():
        figure = style.new_figure(6.4 * len(by_task), 4.2)
        axes = figure.subplots(1, len(by_task), squeeze=False)
        for axis, (task, members) in zip(axes[0], by_task.items()):
            for run, color in zip(members, _cycle(len(members))):
                _plot_run(axis, run, color)
            axis.set(title=style.plain(task), xlabel="transitions", ylabel="return")
            axis.xaxis.set_major_formatter(style.thousands)
            if axis.get_legend_handles_labels()[0]:
                axis.legend(title="deterministic evaluation (thin: training)")
        out.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(out, dpi=150)


def _plot_run(axis: "Axes", run: RunData, color: str) -> None:
    """Training returns behind, evaluations with their standard deviation over episodes in front."""
    training = [(row["step"], value) for row, value in run.series("charts/episodic_return")]
    if training:
        axis.plot(*zip(*training), color=color, alpha=0.35, lw=1)
    evaluations = [row for row, _ in run.series("eval/return_mean")]
    if evaluations:
        step = np.array([row["step"] for row in evaluations], np.float64)
        mean = np.array([row["eval/return_mean"] for row in evaluations], np.float64)
        std = np.array([row.get("eval/return_std", 0.0) for row in evaluations], np.float64)
        label = style.plain(f"{run.label}, seed {run.config.seed}")
        axis.plot(step, mean, color=color, marker="o", ms=3, label=label)
        axis.fill_between(step, mean - std, mean + std, color=color, alpha=0.15, lw=0)
