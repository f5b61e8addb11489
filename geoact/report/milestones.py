"""Long runs beside the paper's: what a recipe has on its way and at its end, and when it passes the paper's return.

The paper's number is GAC's training return after a million updates. Beside it stand the same quantity at the end of our
runs, deterministic evaluations (at the end, after `MILESTONE` updates with what we aim at there, the first that passes
the paper's), and the core hours that a run took, with those that the paper's length would take at the same speed.
"""

from pathlib import Path

import numpy as np

from geoact.experiments.catalogue import Experiment
from geoact.experiments.paper_numbers import paper_mean, paper_return, paper_vector_steps
from geoact.report import style
from geoact.report.collect import SCORES, RunData, RunGroup
from geoact.report.comparison import Groups, mean_std
from geoact.report.curves import mark_papers_return, plot_tasks, shape_of_panels
from geoact.report.tables import Table, Value

MILESTONE = 60_000
"""Updates, on the way or at the end."""
NEAR = 3_000
"""Updates that the evaluation shown there may be away from it; summaries of long runs hold every second or third."""
AIMS = {
    "HalfCheetah-v4": 8_000,
    "Walker2d-v4": 4_500,
    "Hopper-v4": 2_000,
    "Ant-v4": 3_000,
    "quadruped-walk": 800,
}
"""The evaluation that `AIMING` is to end with in so many updates, set before its runs; missed or not, the table says
it. Of a longer run, which has not cooled down by then, nothing is asked."""
AIMING = "gac-fast"


def make(experiment: Experiment, groups: Groups, skipped: list[str], out: Path) -> list[Path]:
    """Write the table and the figure; the files written."""
    return table(experiment, groups, skipped).write(out) + draw(out / experiment.name, experiment, groups)


def evaluations(run: RunData) -> dict[int, float]:
    """Updates made -> deterministic evaluation."""
    return {int(row["updates"]): value for row, value in run.series("eval/return_mean") if "updates" in row}


def at_milestone(run: RunData) -> float | None:
    """The evaluation nearest to `MILESTONE` updates, the earlier of two that are as near."""
    near = {
        abs(n - MILESTONE): value
        for n, value in reversed(evaluations(run).items())
        if abs(n - MILESTONE) <= NEAR
    }
    return near[min(near)] if near else None


def ends_there(runs: list[RunData]) -> bool:
    """Whether the last evaluation of these runs is the one at `MILESTONE`."""
    return all(abs(max(evaluations(run), default=0) - MILESTONE) <= NEAR for run in runs)


def against_aim(task: str, midway: list[float]) -> str:
    """What we aim at, and whether the mean is there."""
    if task not in AIMS:
        return ""
    verdict = "" if not midway else " reached" if np.mean(midway) >= AIMS[task] else " missed"
    return f"{AIMS[task]:,}{verdict}"


def first_above(runs: list[RunData], threshold: float) -> int | None:
    """The updates after which the mean evaluation over runs is first at least the threshold."""
    found = [evaluations(run) for run in runs]
    common = sorted(set.intersection(*map(set, found))) if found else []
    return next((n for n in common if np.mean([each[n] for each in found]) >= threshold), None)


def row(task: str, label: str, group: RunGroup) -> list[Value]:
    """One method on one task."""
    runs, theirs = [run for run in group.counted() if run.state == "finished"], paper_mean(task)
    if not runs:
        return [task, label, None, "no runs", "", "", "", paper_return(task), "", "", None, None]
    training, final = (list(group.scores(kind).values()) for kind in SCORES)
    midway = [value for run in runs if (value := at_milestone(run)) is not None]
    passed = {"training": training, "evaluation": final}
    reached = [word for word, scores in passed.items() if scores and np.mean(scores) >= theirs]
    first = first_above(runs, theirs)
    return [
        task,
        label,
        group.vector_steps,
        mean_std(midway, seeds=False) if midway else "",
        against_aim(task, midway) if label == AIMING and ends_there(runs) else "",
        mean_std(training, seeds=False) if training else "",
        mean_std(final) if final else "",
        paper_return(task),
        " and ".join(reached) or "neither",
        f"{first:,}" if first is not None else "never",
        *core_hours(task, group),
    ]


def core_hours(task: str, group: RunGroup) -> tuple[float | None, float | None]:
    """Of a run, evaluations left out; and of one of the paper's length at this speed.

    Of the seed that took least: a busy machine makes a run longer, and nothing makes it shorter.
    """
    seconds, steps = group.at_end("time/elapsed"), group.vector_steps
    if not seconds or not steps:
        return None, None
    hours = min(seconds) / 3600
    return hours, hours / steps * paper_vector_steps(task)


def table(experiment: Experiment, groups: Groups, skipped: list[str]) -> Table:
    """A row for each task and method."""
    columns = [
        "task",
        "method",
        "our vector steps",
        f"evaluation, {MILESTONE:,} updates",
        "aim there",
        "training, end",
        "evaluation, end",
        "paper's gac, training (vector steps)",
        "at least the paper's at the end",
        "first evaluation at least the paper's (updates)",
        "core hours",
        "core hours, the paper's length",
    ]
    rows = [
        row(task.name, label, groups[task.name, label])
        for task in experiment.tasks
        for label in experiment.variants
        if (task.name, label) in groups
    ]
    counts = {len(group.scores("eval")) for group in groups.values()} - {0}
    seeds = " to ".join(str(count) for count in sorted({min(counts), max(counts)})) if counts else "no"
    budgets = sorted({group.budget for group in groups.values() if group.budget})
    notes = [
        f"Training: {SCORES['training']}. Evaluation: {experiment.eval_episodes} deterministic episodes. Mean ± sample "
        f"standard deviation over n seeds ({seeds} here); compared with the paper's is the mean over seeds. "
        f"After {MILESTONE:,} updates: the nearest evaluation, at most {NEAR:,} away, and what we aim at there.",
        "The paper's number is a training return, after as many updates as vector steps. Ours: "
        + "; ".join(f"{total:,} transitions, {-(-total // envs):,} vector steps" for total, envs in budgets)
        + ".",
        "Core hours: of one run, evaluations left out, the least of the seeds (a busy machine takes longer); then what "
        "the paper's length would take at this speed. Runs of different machines may stand side by side.",
        *(f"{task.name}: {task.note}." for task in experiment.tasks if task.note),
        *(f"Skipped {line}." for line in skipped),
    ]
    formats = dict.fromkeys(columns[-2:], ".2f") | {columns[2]: ",d"}
    return Table(experiment.name, experiment.title, columns, rows, notes, formats)


def draw(stem: Path, experiment: Experiment, groups: Groups) -> list[Path]:
    """Deterministic evaluations, one panel per task, with the paper's final return as a line."""
    from matplotlib.lines import Line2D

    drawn = [
        label for label in experiment.variants if any(g.runs for (_, m), g in groups.items() if m == label)
    ]
    colors = style.colors_of(drawn)
    with style.drawing():
        down, across = shape_of_panels(experiment.tasks)
        figure = style.new_figure(max(7.2, 2.9 * across), 2.1 * down + 0.9)
        (inside,) = figure.subfigures(
            1, 1, squeeze=False
        ).ravel()  # the legend stands below it, axis label and all
        panels = plot_tasks(inside, experiment.tasks, groups, "eval", colors)
        papers, papers_name = mark_papers_return(panels, experiment.tasks)
        handles = [*(Line2D([], [], color=colors[label]) for label in drawn), papers]
        names = [*map(style.plain, drawn), papers_name]
        figure.legend(handles, names, loc="outside lower center", ncols=len(names))
        figure.suptitle(
            style.plain(f"{experiment.title}\ncurves: mean, shaded: ± standard deviation over seeds"),
            fontsize=10,
        )
        return style.save_figure(figure, stem)
