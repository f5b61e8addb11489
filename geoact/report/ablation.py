"""A method taken apart, or made larger: its variants beside it on several tasks, and what share of its return each has.

The first variant of the experiment is the whole that all others are held against. A share is the ratio of the mean
returns on a task, averaged over the tasks that both have finished; beside it, because one task with small returns can
rule a mean of ratios, stands the probability that a run of the whole beats one of the variant. The core minutes that a
run took, evaluations left out, tell variants that cost more per update apart from those that learn more.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from geoact import statistics
from geoact.experiments.catalogue import Experiment
from geoact.report import evidence, style
from geoact.report.collect import Score
from geoact.report.comparison import BOOTSTRAP_SEED, KINDS, Groups, enough_seeds
from geoact.report.tables import Table, Value

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def make(experiment: Experiment, groups: Groups, skipped: list[str], out: Path) -> list[Path]:
    """Write the table and the figure; the files written."""
    return table(experiment, groups, skipped).write(out) + draw(out / experiment.name, experiment, groups)


def shares(experiment: Experiment, groups: Groups, label: str, kind: Score) -> dict[str, float]:
    """Task -> mean return over that of the whole, where both have finished runs and the whole's is positive."""
    whole = next(iter(experiment.variants))
    found = {}
    for task in experiment.tasks:
        both = [groups.get((task.name, name)) for name in (label, whole)]
        means = [None if group is None else group.mean(kind) for group in both]
        if means[0] is not None and means[1] is not None and means[1] > 0:
            found[task.name] = means[0] / means[1]
    return found


def odds(experiment: Experiment, groups: Groups, label: str, kind: Score) -> str:
    """`0.75 (0.50 to 1.00)`: the probability that a run of the whole has the higher score on the same task."""
    names = (next(iter(experiment.variants)), label)
    tasks = [task.name for task in experiment.tasks if (task.name, label) in groups]
    whole, mine = (
        {task: list(groups[task, name].scores(kind).values()) for task in tasks if (task, name) in groups}
        for name in names
    )
    both = [task for task in tasks if whole.get(task) and mine.get(task)]
    if not both or label == names[0]:
        return ""
    scores = [{task: found[task] for task in both} for found in (whole, mine)]
    better = statistics.bootstrap_interval(
        statistics.probability_of_improvement, *scores, seed=BOOTSTRAP_SEED
    )
    interval = f" ({better.low:.2f} to {better.high:.2f})" if all(map(enough_seeds, scores)) else ""
    return f"{better.estimate:.2f}{interval}"


def table(experiment: Experiment, groups: Groups, skipped: list[str]) -> Table:
    """Variants down, tasks across."""
    whole = next(iter(experiment.variants))
    tasks = [task.name for task in experiment.tasks]
    columns = ["variant", *tasks, *(f"share of {whole}, {word}" for word in KINDS.values())]
    columns += [*(f"P({whole} better), {word}" for word in KINDS.values()), "updates", "core minutes"]
    rows: list[list[Value]] = []
    for label in experiment.variants:
        row: list[Value] = [label, *(evidence.entry(groups.get((task, label))) for task in tasks)]
        for kind in KINDS:
            found = list(shares(experiment, groups, label, kind).values())
            row.append(f"{100 * float(np.mean(found)):.0f} %" if found else "")
        row += [odds(experiment, groups, label, kind) for kind in KINDS]
        mine = [groups[task, label] for task in tasks if (task, label) in groups]
        updates, seconds = (
            [value for group in mine for value in group.at_end(column)]
            for column in ("updates", "time/elapsed")
        )
        row += [round(float(np.mean(updates))) if updates else None]
        row += [float(np.mean(seconds)) / 60 if seconds else None]
        rows.append(row)
    notes = [
        *evidence.notes(experiment, groups, skipped),
        f"Share: mean return over that of {whole} on the same task, averaged over the tasks where both are there. "
        f"P: probability that a run of {whole} has the higher score than one of this variant on the same task, "
        "averaged over these tasks, with its stratified bootstrap 95 % interval where every entry has two seeds. "
        "Updates and core minutes: of one run, mean over tasks and seeds; evaluations are not in the minutes.",
    ]
    formats = {"updates": ",", "core minutes": ".1f"}
    return Table(experiment.name, experiment.title, columns, rows, notes, formats)


def draw(stem: Path, experiment: Experiment, groups: Groups) -> list[Path]:
    """Every variant's share of the whole by both scores: a mark for each task, a bar for their mean."""
    labels = [label for label in experiment.variants if shares(experiment, groups, label, "training")]
    if not labels:
        return []
    with style.drawing():
        figure = style.new_figure(9.6, 1.5 + 0.26 * len(labels))
        panels: list[Axes] = list(np.atleast_1d(figure.subplots(1, len(KINDS), sharey=True)))
        for axis, (kind, word) in zip(panels, KINDS.items(), strict=True):
            _plot_shares(axis, experiment, groups, labels, kind)
            axis.set(title=word, xlabel=f"share of {labels[0]}'s return, %")
        panels[0].set_yticks([-i for i in range(len(labels))], [style.plain(label) for label in labels])
        handles, names = panels[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=len(names))
        figure.suptitle(style.plain(experiment.title), fontsize=10)
        return style.save_figure(figure, stem)


def _plot_shares(
    axis: "Axes", experiment: Experiment, groups: Groups, labels: list[str], kind: Score
) -> None:
    found = {label: shares(experiment, groups, label, kind) for label in labels}
    means = [100 * float(np.mean(list(each.values()))) if each else 0.0 for each in found.values()]
    axis.barh([-i for i in range(len(labels))], means, color="0.85", height=0.7)
    for task, color, marker in zip(experiment.tasks, style.COLORS, "osD^vP*X"):
        points = [(each[task.name], -i) for i, each in enumerate(found.values()) if task.name in each]
        if points:
            across, down = zip(*points)
            axis.plot(
                100 * np.array(across), down, marker, color=color, ms=4, ls="", label=style.plain(task.name)
            )
    axis.axvline(100, color="0.4", lw=0.8)
