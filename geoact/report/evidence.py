"""All tasks of an experiment at one equal budget: the table, the statistics over tasks, and one figure of everything.

Variants that stand for the same method on different tasks (`gac` on MuJoCo, `gac-scale` on DMControl) share a
column. Each entry is `training / evaluation`, both means over seeds with their sample standard deviations, and what
is missing is named below the table.
"""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from geoact import statistics
from geoact.experiments.catalogue import Experiment
from geoact.experiments.paper_numbers import paper_return
from geoact.report import style
from geoact.report.collect import SCORES, RunGroup, Score
from geoact.report.comparison import (
    BOOTSTRAP_SEED,
    KINDS,
    Groups,
    aggregate,
    draw_profiles,
    enough_seeds,
    mean_std,
    pairs,
    plot_profiles,
    scale_of,
    shared,
)
from geoact.report.curves import mark_papers_return, plot_tasks, shape_of_panels
from geoact.report.tables import Table, Value

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INSIDE = {
    "weight w": "policy/weight",
    "kappa": "policy/kappa",
    "clipped": "policy/clipped",
    "learned scale": "policy/scale",
    "entropy": "policy/entropy",
    "alpha": "losses/alpha",
    "value": "losses/qf_values",
}
"""What the table of what happens inside shows, by its columns."""


def make(experiment: Experiment, groups: Groups, skipped: list[str], out: Path) -> list[Path]:
    """Write the table, the statistics over tasks and the figures; the files written.

    The statistics are of the methods that have finished all tasks; where others have finished half of them (or, while
    there are none, some), theirs are beside it in files named `_shared`, over the tasks that they share.
    """
    merged = by_method(experiment, groups)
    name, title = experiment.name, experiment.title
    paths = table(experiment, groups, skipped).write(out)
    within = inside(experiment, groups)
    paths += within.write(out) if within.rows else []
    for suffix, members in zip(("", "_shared"), comparable(experiment, merged)):
        together = aggregate(name + suffix, title, members)
        against = pairs(name + suffix, title, members)
        if together is not None and against is not None:
            paths += together.write(out) + against.write(out)
            for kind, word in KINDS.items():
                paths += draw_profiles(out / f"{name}{suffix}_profiles_{word}", title, members, kind)
    return paths + draw(out / name, experiment, merged)


def by_method(experiment: Experiment, groups: Groups) -> dict[tuple[str, str], RunGroup]:
    """(task, method) -> runs: variants of one method on different tasks under one label."""
    merged: dict[tuple[str, str], RunGroup] = {}
    for (task, label), group in groups.items():
        method = experiment.variants[label].method or label
        assert (task, method) not in merged, f"{method} has two variants on {task}"
        merged[task, method] = RunGroup(task, method, group.runs)
    return merged


def comparable(experiment: Experiment, merged: Groups) -> list[dict[tuple[str, str], RunGroup]]:
    """What can be compared: the methods that have finished every task, half of the tasks, any.

    Only sets of two or more, and that have more in them than the one before.
    """
    finished = Counter(method for (_, method), group in merged.items() if all(map(group.scores, KINDS)))
    sets: list[set[str]] = []
    for enough in (len(experiment.tasks), len(experiment.tasks) / 2, 1):
        methods = {method for _, method in merged if finished[method] >= enough}
        if len(methods) >= 2 and methods not in sets:
            sets.append(methods)
    return [{key: group for key, group in merged.items() if key[1] in methods} for methods in sets]


def headline(experiment: Experiment, merged: Groups) -> Groups:
    """What the figure compares: the methods with all tasks, once they are half of all methods.

    Before, the set with most methods that still share half of the tasks; without one, what is comparable at all.
    """
    sets = comparable(experiment, merged)
    wide = [members for members in sets if 2 * len(shared(members, "eval")[0]) >= len(experiment.tasks)]
    if wide and len(shared(wide[0], "eval")[0]) == len(experiment.tasks):
        complete, methods = ({method for _, method in members} for members in (wide[0], merged))
        if 2 * len(complete) >= len(methods):
            return wide[0]
    return (wide[-1:] or sets[:1] or [merged])[0]


def entry(group: RunGroup | None) -> str:
    """`4,314 ± 120 / 5,092 ± 182 (n=2)`: training / evaluation, or what must be said instead."""
    if group is None:
        return "not planned"
    if not group.runs:
        return "no runs"
    scores = {kind: list(group.scores(kind).values()) for kind in KINDS}
    parts = [mean_std(values, seeds=False) if values else "none" for values in scores.values()]
    remarks = [remark for remark in group.remarks() if "another budget" not in remark]
    if not any(scores.values()):
        return "; ".join(remarks)
    return "; ".join([f"{' / '.join(parts)} (n={max(map(len, scores.values()))})", *remarks])


def table(experiment: Experiment, groups: Groups, skipped: list[str]) -> Table:
    """Tasks down, methods across."""
    merged = by_method(experiment, groups)
    methods = list(dict.fromkeys(method for _, method in merged))
    rows: list[list[Value]] = []
    for task in experiment.tasks:
        steps = sorted(
            {group.budget for (name, _), group in merged.items() if name == task.name and group.budget}
        )
        row: list[Value] = [f"{task.name} (run as {task.env})" if task.note else task.name]
        row += [entry(merged.get((task.name, method))) for method in methods]
        row.append("; ".join(f"{total:,} = {-(-total // envs):,} x {envs}" for total, envs in steps))
        row.append(paper_return(task.name))
        rows.append(row)
    columns = ["task", *methods, "transitions = vector steps x environments", "paper's gac (vector steps)"]
    return Table(experiment.name, experiment.title, columns, rows, notes(experiment, groups, skipped))


def notes(experiment: Experiment, groups: Groups, skipped: list[str]) -> list[str]:
    """How the entries are to be read, and which runs are missing."""
    lines = [
        f"Each entry: training / evaluation. Training: {SCORES['training']}. Evaluation: {SCORES['eval']}. "
        "Mean ± sample standard deviation over n seeds. The paper's: training return, at the vector steps in brackets."
    ]
    for label, variant in experiment.variants.items():
        if variant.method is not None:
            own = ", ".join(task.name for task in experiment.tasks if variant.on(task))
            lines.append(f"{variant.method} is {label} on {own}.")
    counts = {len(group.scores(kind)) for group in groups.values() for kind in KINDS} - {0}
    if counts:
        seeds = str(min(counts)) if len(counts) == 1 else f"{min(counts)} to {max(counts)}"
        word = "seed" if max(counts) == 1 else "seeds"
        lines.append(f"{seeds} {word} per entry: enough to see large differences, not to rank close ones.")
    lines += [f"{task.name}: {task.note}." for task in experiment.tasks if task.note]
    absent = missing_runs(experiment, groups)
    planned = len(groups) * len(experiment.seeds)
    if absent:
        number = sum(len(missing_seeds(experiment, group)) for group in groups.values())
        everyone = list(experiment.variants)
        listed = "; ".join(
            f"{what}: {'all variants' if labels == everyone else ', '.join(labels)}"
            for what, labels in absent.items()
        )
        lines.append(
            f"Missing ({number} of {planned} runs; geoact sweep {experiment.name} makes them): {listed}."
        )
    return lines + [f"Skipped {line}." for line in skipped]


def inside(experiment: Experiment, groups: Groups) -> Table:
    """What the policies and critics of the finished runs had come to, one row per task and variant."""
    rows: list[list[Value]] = []
    for (task, label), group in groups.items():
        found = [group.at_end(metric) for metric in INSIDE.values()]
        if any(found):  # three digits: a summary, which keeps five, gives the same
            means = [float(f"{sum(values) / len(values):.3g}") if values else None for values in found]
            rows.append([task, label, *means, max(map(len, found))])
    notes = [
        "At the end of each run, by a batch from replay; means over seeds. w: weight of the direction "
        "against uniform noise. clipped: share of the action's coordinates beyond their limits. entropy: of the "
        "direction (GAC), of the action (SAC). value: of the critics; in gac-fast and sac-fast in units of the "
        "reward's scale."
    ]
    formats = dict.fromkeys(INSIDE, ".3g")
    columns = ["task", "variant", *INSIDE, "runs"]
    return Table(f"{experiment.name}_inside", f"{experiment.title}: inside", columns, rows, notes, formats)


def missing_seeds(experiment: Experiment, group: RunGroup) -> list[str]:
    """The experiment's seeds without a finished run."""
    done = {run.config.seed for run in group.counted() if run.state == "finished"}
    return [str(seed) for seed in experiment.seeds if seed not in done]


def missing_runs(experiment: Experiment, groups: Groups) -> dict[str, list[str]]:
    """`seeds 0 and 10 on walker-run` -> the variants that lack exactly these seeds exactly there."""
    absent: dict[str, list[str]] = {}
    for label, variant in experiment.variants.items():
        planned = [task.name for task in experiment.tasks if variant.on(task)]
        lacking: dict[str, list[str]] = {}
        for task in planned:
            if (task, label) in groups and (seeds := missing_seeds(experiment, groups[task, label])):
                some = len(seeds) < len(experiment.seeds)
                which = f"seed{'s' if len(seeds) > 1 else ''} {' and '.join(seeds)}" if some else "all seeds"
                lacking.setdefault(which, []).append(task)
        for which, tasks in lacking.items():
            where = "all tasks" if tasks == planned else ", ".join(tasks)
            absent.setdefault(f"{which} on {where}", []).append(label)
    return absent


def draw(stem: Path, experiment: Experiment, merged: Groups) -> list[Path]:
    """Normalised scores with intervals above, one panel of learning curves per task below."""
    from matplotlib.lines import Line2D

    methods = list(dict.fromkeys(method for _, method in merged))
    colors = style.colors_of(methods)
    down, _ = shape_of_panels(experiment.tasks)
    with style.drawing():
        figure = style.new_figure(11.6, 3.4 + 2.1 * down)
        above, below = figure.subfigures(2, 1, squeeze=False, height_ratios=[3.2, 2.1 * down]).ravel()
        middle, better, profile = above.subplots(1, 3)
        whole = headline(experiment, merged)
        _plot_scores(middle, better, whole, colors)
        shown, scores = shared(whole, "eval")
        if shown:
            plot_profiles(profile, scores, scale_of(scores, shown))
        profile.set_title("performance profile, evaluation")
        panels = plot_tasks(below, experiment.tasks, merged, "eval", colors)
        papers, papers_name = mark_papers_return(panels, experiment.tasks)
        drawn = list(dict.fromkeys(method for (_, method), group in merged.items() if group.runs))
        handles = [Line2D([], [], color=colors[method]) for method in drawn]
        if drawn:
            names = [*map(style.plain, drawn), papers_name]
            figure.legend([*handles, papers], names, loc="outside lower center", ncols=len(names))
        figure.suptitle(
            style.plain(f"{experiment.title}\ncurves: mean, shaded: ± standard deviation over seeds"),
            fontsize=10,
        )
        return style.save_figure(figure, stem)


def _plot_scores(middle: "Axes", better: "Axes", merged: Groups, colors: dict[str, str]) -> None:
    """Interquartile mean of the normalised scores, and the probability of improvement over the first method."""
    first, scale = "", None
    looks: dict[Score, tuple[str, float]] = {"training": ("o", 0.14), "eval": ("s", -0.14)}
    for kind, (marker, shift) in looks.items():
        tasks, scores = shared(merged, kind)
        if not tasks:
            continue
        first = next(iter(scores))
        scale = scale_of(scores, tasks)
        scaled = scale.apply(scores)
        for place, label in enumerate(scores):
            enough = enough_seeds(scores[label])
            found = statistics.bootstrap_interval(
                statistics.interquartile_mean, scaled[label], seed=BOOTSTRAP_SEED
            )
            _point(middle, found, -place + shift, marker, colors[label], enough)
            if label != first:
                found = statistics.bootstrap_interval(
                    statistics.probability_of_improvement, scores[first], scores[label], seed=BOOTSTRAP_SEED
                )
                both = enough and enough_seeds(scores[first])
                _point(better, found, -place + shift, marker, colors[label], both)
        for axis in (middle, better):
            axis.set_yticks([-i for i in range(len(scores))], [style.plain(label) for label in scores])
        where = f"{len(tasks)} tasks" if len(tasks) > 1 else tasks[0]
        middle.plot([], [], marker, color="0.4", label=f"{KINDS[kind]}, {where}")
    middle.set(title="interquartile mean, normalised", xlabel=str(scale or ""))
    middle.axvline(0.0, color="0.4", lw=0.8)
    middle.axvline(1.0, color="0.4", lw=0.8)
    better.set(title=style.plain(f"probability that {first or 'the first'} is better"), xlim=(-0.03, 1.03))
    better.set_ylim(middle.get_ylim())  # the same rows, though the first method is not compared with itself
    better.axvline(0.5, color="0.4", lw=0.8)
    if first:
        middle.legend(loc="best")


def _point(
    axis: "Axes", found: statistics.Interval, height: float, marker: str, color: str, interval: bool
) -> None:
    axis.plot([float(found.estimate)], [height], marker, color=color, ms=5)
    if interval:
        ends = np.array([float(found.low), float(found.high)])
        axis.plot(ends, [height, height], color=color, lw=1.6)
