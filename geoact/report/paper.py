"""The paper's tables and figures from whatever runs are there, our numbers beside the paper's.

A mean never stands without its number of seeds and its budget. Budgets are in vector steps (the paper's unit)
where they stand beside the paper's, with our transitions named in the note; the axes of figures are
transitions. What is missing is said where its number would be.

Each table comes in two forms: as the paper prints it, and `_details`, one row per cell with the interquartile
mean and its bootstrap interval. With two or more variants a third, `_aggregate`, compares them over all tasks
that they share.
"""

import functools
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from geoact.analysis import statistics
from geoact.errors import InputError
from geoact.experiments.catalogue import EXPERIMENTS, Experiment, paper_numbers
from geoact.report.collect import Cell, Record, Score, cells
from geoact.report.style import COLORS, METHOD_COLORS, drawing, new_figure, save_figure
from geoact.report.tables import Cell as Entry
from geoact.report.tables import write_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TABLES = ("table1", "table2", "table3", "tableA2")
FIGURES: dict[str, tuple[str, Literal["return", "scale"]]] = {
    "fig3": ("table1", "return"),
    "fig4": ("table2", "return"),
    "fig5": ("table3", "return"),
    "figA3": ("table2", "scale"),
    "figA4": ("tableA2", "scale"),
}
"""Figure -> the experiment it is drawn from and what it shows."""

SCORES: dict[Score, str] = {
    "eval": "last deterministic evaluation of each run",
    "training": "training return over the last tenth of each run",
}
BOOTSTRAP_SEED = 0

Cells = Mapping[tuple[str, str], Cell]


@dataclass(frozen=True)
class Table:
    """A table before it is written."""

    name: str
    title: str
    columns: list[str]
    rows: list[list[Entry]]
    notes: list[str] = field(default_factory=list)
    formats: dict[str, str] = field(default_factory=dict)

    def write(self, folder: Path) -> list[Path]:
        note = "\n".join(f"- {note}" for note in self.notes)
        return write_table(
            folder / self.name, self.title, self.columns, self.rows, note, self.formats, latex=True
        )


def number(value: float) -> str:
    """Returns are shown whole, small ones with two digits."""
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:,.2f}"


def mean_std(scores: Sequence[float]) -> str:
    """`4,321 ± 120 (n=5)`; a single run has no spread."""
    found = statistics.mean_std(scores)
    digits = 0 if abs(found.mean) >= 100 else 2
    spread = "" if math.isnan(found.std) else f" ± {found.std:,.{digits}f}"
    return f"{found.mean:,.{digits}f}{spread} (n={found.seeds})"


def ours(cell: Cell, kind: Score) -> str:
    """Our entry: the number, and all that must be said with it."""
    scores, remarks = list(cell.scores(kind).values()), cell.remarks(kind)
    if not cell.records:
        return "no runs"
    return "; ".join(([mean_std(scores)] if scores else []) + remarks)


def theirs(value: Any) -> str:
    """The paper's entry."""
    if isinstance(value, list):
        return f"{number(value[0])} ± {number(value[1])} (n=5)"
    return str(value) if value is not None else ""


def vector_steps(cell: Cell) -> int | None:
    """The cell's budget in vector steps."""
    budget = cell.budget
    return None if budget is None else -(-budget[0] // budget[1])


def paper_entry(experiment: Experiment, task: str, label: str) -> str:
    """What the paper has at this place."""
    if experiment.paper is None:
        return ""
    numbers = paper_numbers()[experiment.paper]
    column = experiment.variants[label].paper
    return theirs(numbers[task][column] if task in numbers else numbers[column])


def notes(experiment: Experiment, table: Cells, kind: Score, skipped: list[str]) -> list[str]:
    """What stands below a table."""
    lines = [f"Ours: {SCORES[kind]}; mean ± sample standard deviation over n seeds."]
    budgets = sorted({cell.budget for cell in table.values() if cell.budget is not None})
    if budgets:
        each = "; ".join(
            f"{t:,} transitions = {-(-t // n):,} vector steps of {n} environments" for t, n in budgets
        )
        lines.append(f"Our budgets: {each}.")
    if experiment.paper is not None:
        lines.append(
            "Paper: mean episodic return ± standard deviation over 5 seeds. A step of the paper is a vector step: 8 "
            "transitions."
        )
    lines += [f"{task.name}: {task.note}." for task in experiment.tasks if task.note]
    missing = sorted(f"{cell.label} on {cell.task}" for cell in table.values() if not cell.scores(kind))
    if missing:
        lines.append(f"Without a finished run ({len(missing)} of {len(table)}): {', '.join(missing)}.")
    lines += [f"Skipped {line}." for line in skipped]
    return lines


def as_printed(experiment: Experiment, table: Cells, kind: Score, skipped: list[str]) -> Table:
    """The table in the paper's own form: tasks down, algorithms across; for one task, its variants down."""
    below = notes(experiment, table, kind, skipped)
    if len(experiment.tasks) == 1:
        task = experiment.tasks[0]
        columns = ["variant", "ours", "our vector steps", "paper", "paper's vector steps"]
        rows: list[list[Entry]] = [
            [
                variant.paper or label,
                ours(table[task.name, label], kind),
                vector_steps(table[task.name, label]),
                paper_entry(experiment, task.name, label),
                task.vector_steps if experiment.paper else None,
            ]
            for label, variant in experiment.variants.items()
        ]
        formats = {"our vector steps": ",", "paper's vector steps": ","}
        return Table(experiment.name, experiment.title, columns, rows, below, formats)
    columns = ["task"]
    for label in experiment.variants:
        columns += [f"{label}, ours"] + [f"{label}, paper"] * bool(experiment.paper)
    columns += ["our vector steps"] + ["paper's vector steps"] * bool(experiment.paper)
    rows = []
    for task in experiment.tasks:
        name = f"{task.name} (ours: {task.env})" if task.note else task.name
        row: list[Entry] = [name]
        present = [table[task.name, label] for label in experiment.variants if (task.name, label) in table]
        steps = sorted({s for s in map(vector_steps, present) if s is not None})
        for label in experiment.variants:
            cell = table.get((task.name, label))
            text = "not planned" if cell is None else ours(cell, kind)
            if cell is not None and len(steps) > 1 and cell.budget is not None:
                text += f", {vector_steps(cell):,} vector steps"
            row += [text] + [paper_entry(experiment, task.name, label)] * bool(experiment.paper)
        row += [" / ".join(f"{s:,}" for s in steps)]
        row += [f"{task.vector_steps:,}"] * bool(experiment.paper)
        rows.append(row)
    return Table(experiment.name, experiment.title, columns, rows, below)


def details(name: str, title: str, table: Cells, kind: Score, experiment: Experiment | None = None) -> Table:
    """One row per cell, with everything."""
    columns = [
        "task",
        "variant",
        "mean",
        "std",
        "IQM",
        "IQM 95 % low",
        "IQM 95 % high",
        "seeds",
        "transitions",
    ]
    columns += ["vector steps", "remarks"] + ["paper"] * (
        experiment is not None and experiment.paper is not None
    )
    rows: list[list[Entry]] = []
    for (task, label), cell in table.items():
        scores = list(cell.scores(kind).values())
        row: list[Entry] = [task, label, None, None, None, None, None]
        if scores:
            found = statistics.mean_std(scores)
            row[2], row[3] = found.mean, None if math.isnan(found.std) else found.std
            row[4] = float(statistics.interquartile_mean({task: scores}))
            if len(scores) > 1:  # of one run nothing is known about the spread
                interval = statistics.bootstrap_interval(
                    statistics.interquartile_mean, {task: scores}, seed=BOOTSTRAP_SEED
                )
                row[5], row[6] = float(interval.low), float(interval.high)
        remarks = cell.remarks(kind) if cell.records else ["no runs"]
        row += [len(scores), cell.budget[0] if cell.budget else None, vector_steps(cell), "; ".join(remarks)]
        if "paper" in columns:
            assert experiment is not None
            row.append(paper_entry(experiment, task, label))
        rows.append(row)
    formats = dict.fromkeys(("mean", "std", "IQM", "IQM 95 % low", "IQM 95 % high"), ",.1f")
    formats |= {"transitions": ",", "vector steps": ","}
    below = [
        f"Score: {SCORES[kind]}. IQM: interquartile mean, with its stratified bootstrap 95 % interval, 10,000 replicas."
    ]
    return Table(f"{name}_details", f"{title}: details", columns, rows, below, formats)


def shared(table: Cells, kind: Score) -> tuple[list[str], dict[str, dict[str, list[float]]]]:
    """The variants and their scores on the tasks that all of them have finished with the same budget.

    Variants with the fewest tasks are left out until something is shared.
    """
    by_label: dict[str, dict[str, Cell]] = {}
    for (task, label), cell in table.items():
        if cell.scores(kind):
            by_label.setdefault(label, {})[task] = cell
    while len(by_label) >= 2:
        common = [
            task
            for task in next(iter(by_label.values()))
            if all(task in members for members in by_label.values())
            and len({members[task].budget for members in by_label.values()}) == 1
        ]
        if common:
            scores = {
                label: {task: list(members[task].scores(kind).values()) for task in common}
                for label, members in by_label.items()
            }
            return common, scores
        fewest = min(by_label, key=lambda label: len(by_label[label]))
        del by_label[fewest]
    return [], {}


def normalised(
    scores: dict[str, dict[str, list[float]]], tasks: list[str]
) -> dict[str, dict[str, list[float]]]:
    """Every task's scores on [0, 1]: 0 is the worst run shown, 1 the best."""
    result: dict[str, dict[str, list[float]]] = {label: {} for label in scores}
    for task in tasks:
        everything = [score for members in scores.values() for score in members[task]]
        low, high = min(everything), max(everything)
        for label, members in scores.items():
            result[label][task] = [(s - low) / (high - low) if high > low else 0.5 for s in members[task]]
    return result


def aggregate(name: str, title: str, table: Cells, kind: Score) -> Table | None:
    """The variants against each other over the tasks they share; None where nothing is shared."""
    tasks, scores = shared(table, kind)
    if not tasks:
        return None
    scaled = normalised(scores, tasks)
    first = next(iter(scores))
    enough = all(len(seeds) > 1 for members in scores.values() for seeds in members.values())
    columns = [
        "variant",
        "IQM, normalised",
        "95 % interval",
        f"P({first} better)",
        "95 % interval of P",
        "runs",
    ]
    rows: list[list[Entry]] = []
    for label in scores:
        iqm = statistics.bootstrap_interval(statistics.interquartile_mean, scaled[label], seed=BOOTSTRAP_SEED)
        better = statistics.bootstrap_interval(
            statistics.probability_of_improvement, scores[first], scores[label], seed=BOOTSTRAP_SEED
        )
        itself = label == first
        rows.append(
            [
                label,
                float(iqm.estimate),
                f"{iqm.low:.2f} to {iqm.high:.2f}" if enough else "",
                None if itself else float(better.estimate),
                "" if itself or not enough else f"{better.low:.2f} to {better.high:.2f}",
                sum(map(len, scores[label].values())),
            ]
        )
    below = [
        f"Over {len(tasks)} task{'s' * (len(tasks) > 1)} that all of these have finished with equal budgets: "
        f"{', '.join(tasks)}.",
        "Normalised per task: 0 is the worst run shown here, 1 the best. Stratified bootstrap, 10,000 replicas.",
    ]
    below += [] if enough else ["No intervals: they need at least two seeds of every variant on every task."]
    formats = {"IQM, normalised": ".3f", f"P({first} better)": ".2f"}
    return Table(f"{name}_aggregate", f"{title}: all tasks together", columns, rows, below, formats)


def draw_profiles(stem: Path, title: str, table: Cells, kind: Score) -> list[Path]:
    """Performance profiles: the fraction of runs above each normalised score."""
    tasks, scores = shared(table, kind)
    if not tasks:
        return []
    levels = np.linspace(0, 1, 101)
    profile = functools.partial(statistics.performance_profile, thresholds=levels)
    with drawing():
        figure = new_figure(5.2, 3.4)
        axis = figure.subplots()
        shown = normalised(scores, tasks)
        colors = colors_of(shown)
        for label, members in shown.items():
            color = colors[label]
            found = statistics.bootstrap_interval(profile, members, seed=BOOTSTRAP_SEED, replicas=2_000)
            seeds = sum(map(len, members.values()))
            axis.plot(levels, found.estimate, color=color, label=f"{label} ({seeds} runs)")
            if all(len(values) > 1 for values in members.values()):
                axis.fill_between(levels, found.low, found.high, color=color, alpha=0.15, lw=0)
        axis.set(
            xlabel="normalised score (0: worst run shown, 1: best)",
            ylabel="fraction of runs above",
            title=f"{title}: {len(tasks)} task{'s' * (len(tasks) > 1)}",
            ylim=(-0.02, 1.02),
        )
        axis.legend()
        return save_figure(figure, stem)


def colors_of(labels: Iterable[str]) -> dict[str, str]:
    """A method's own colour where it has one, else one that no label here has."""
    labels = list(labels)
    own = {label: METHOD_COLORS[label] for label in labels if label in METHOD_COLORS}
    free = itertools.cycle([color for color in COLORS if color not in own.values()] or COLORS)
    return {label: own.get(label) or next(free) for label in labels}


def curve(records: list[Record], metric: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, int] | None:
    """Steps, mean and sample standard deviation over runs (nan where one run is left), and the number of runs.

    A run counts between its own first and last value; between its points it is interpolated.
    """
    lines = []
    for record in records:
        points = [(row["step"], value) for row, value in record.series(metric)]
        if points:
            lines.append(np.asarray(points, float).T)
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
    return steps[keep], mean[keep], std[keep], len(lines)


def draw_curves(
    stem: Path, title: str, table: Cells, metric: str, ylabel: str, names: Mapping[str, str] | None = None
) -> list[Path]:
    """Learning curves, one panel per task, shaded by the standard deviation over seeds."""
    tasks = list(dict.fromkeys(task for task, _ in table))
    across = min(3, len(tasks))
    down = -(-len(tasks) // across)
    with drawing():
        figure = new_figure(max(5.2, 3.6 * across), 2.9 * down + 0.4)
        axes = figure.subplots(down, across, squeeze=False).ravel()
        labels = list(dict.fromkeys(label for _, label in table))
        colors = colors_of(labels)
        for axis, task in zip(axes, tasks):
            drawn = False
            for label in labels:
                cell = table.get((task, label))
                found = curve(cell.counted(), metric) if cell is not None else None
                if found is None:
                    continue
                _draw_curve(axis, found, label, colors[label])
                drawn = True
            axis.set(title=(names or {}).get(task, task), xlabel="transitions", ylabel=ylabel)
            axis.xaxis.set_major_formatter(lambda x, _: f"{x / 1e6:g}M" if x >= 1e6 else f"{x / 1e3:g}k")
            if drawn:
                axis.legend()
            else:
                axis.text(0.5, 0.5, "no runs", transform=axis.transAxes, ha="center", color="0.5")
                axis.set(xticks=[], yticks=[])
        for axis in axes[len(tasks) :]:
            axis.remove()
        figure.suptitle(f"{title}\nmean, shaded: ± standard deviation over seeds", fontsize=9)
        return save_figure(figure, stem)


def _draw_curve(
    axis: "Axes", found: tuple[np.ndarray, np.ndarray, np.ndarray, int], label: str, color: str
) -> None:
    steps, mean, std, seeds = found
    few = len(steps) <= 25
    text = f"{label} ({seeds} seed{'s' * (seeds > 1)})"
    axis.plot(steps, mean, color=color, label=text, marker="o" if few else None, ms=3)
    axis.fill_between(steps, mean - std, mean + std, color=color, alpha=0.18, lw=0)


def draw_scales(stem: Path, title: str, table: Cells) -> list[Path]:
    """Mean and spread of the learned scale over training, with the paper's final values as bands."""
    learned = {
        task: cell
        for (task, _), cell in table.items()
        if any(r.series("policy/scale") for r in cell.counted())
    }
    tasks = list(dict.fromkeys(task for task, _ in table))
    numbers = paper_numbers()
    with drawing():
        figure = new_figure(9.6, 3.6)
        left, right = figure.subplots(1, 2)
        for place, task in enumerate(tasks):
            color = COLORS[place % len(COLORS)]
            for axis, metric in ((left, "policy/scale"), (right, "policy/scale_std")):
                found = curve(learned[task].counted(), metric) if task in learned else None
                if found is not None:
                    _draw_curve(axis, found, task, color)
        low_high = {task: numbers["figureA3_scale_convergence"].get(task) for task in tasks}
        for place, (task, band) in enumerate(low_high.items()):
            if band and task in learned:
                color = COLORS[place % len(COLORS)]
                left.plot(
                    [1.01] * 2, band, transform=left.get_yaxis_transform(), color=color, lw=3, clip_on=False
                )
        if "Walker2d-v4" in learned:
            paper = numbers["tableA2_walker2d_500k"]
            left.axhline(paper["adaptive_mean_scale"], color="0.4", ls="--", lw=1, label="paper's mean scale")
            right.axhspan(*paper["adaptive_scale_std"], color="0.6", alpha=0.25, lw=0, label="paper's spread")
        left.set(xlabel="transitions", ylabel="mean of the learned scale r")
        right.set(xlabel="transitions", ylabel="spread (standard deviation) of r in a batch")
        for axis in (left, right):
            axis.xaxis.set_major_formatter(lambda x, _: f"{x / 1e6:g}M" if x >= 1e6 else f"{x / 1e3:g}k")
            if axis.get_legend_handles_labels()[0]:
                axis.legend()
            else:
                axis.text(
                    0.5,
                    0.5,
                    "no runs with a learned scale",
                    transform=axis.transAxes,
                    ha="center",
                    color="0.5",
                )
        marks = "; bars at the right edge: the paper's final range" if any(low_high.values()) else ""
        figure.suptitle(f"{title}\nmean over seeds, shaded: ± standard deviation{marks}", fontsize=9)
        return save_figure(figure, stem)


def make_table(name: str, records: list[Record], skipped: list[str], out: Path, kind: Score) -> list[Path]:
    """Write one of the paper's tables, in all its forms."""
    experiment = EXPERIMENTS[name]
    table = cells(experiment, records)
    paths = as_printed(experiment, table, kind, skipped).write(out)
    paths += details(name, experiment.title, table, kind, experiment).write(out)
    together = aggregate(name, experiment.title, table, kind)
    if together is not None:
        paths += together.write(out)
        paths += draw_profiles(out / f"{name}_profiles", experiment.title, table, kind)
    return paths


def make_figure(name: str, records: list[Record], out: Path, kind: Score) -> list[Path]:
    """Draw one of the paper's figures."""
    source, what = FIGURES[name]
    experiment = EXPERIMENTS[source]
    table = cells(experiment, records)
    if what == "scale":
        return draw_scales(out / name, f"{experiment.title}: the learned scale", table)
    metric = "eval/return_mean" if kind == "eval" else "charts/episodic_return"
    ylabel = "return (deterministic)" if kind == "eval" else "return (training)"
    names = {task.name: f"{task.name} (run as {task.env})" for task in experiment.tasks if task.note}
    return draw_curves(out / name, experiment.title, table, metric, ylabel, names)


def check(names: list[str]) -> None:
    """Refuse names that are neither a table nor a figure."""
    from geoact.config import unknown

    for name in names:
        if name not in (*TABLES, "beyond", *FIGURES):
            raise InputError(unknown("table or figure", name, [*TABLES, "beyond", *FIGURES, "all"]))


def make(what: str, records: list[Record], skipped: list[str], out: Path, kind: Score) -> list[Path]:
    """One of the paper's tables or figures, by name."""
    if what in FIGURES:
        return make_figure(what, records, out, kind)
    return make_table(what, records, skipped, out, kind)


def compare(table: Cells, out: Path, kind: Score, title: str = "Comparison") -> list[Path]:
    """The same for any runs."""
    paths = details("comparison", title, table, kind).write(out)
    together = aggregate("comparison", title, table, kind)
    if together is not None:
        paths += together.write(out)
        paths += draw_profiles(out / "comparison_profiles", title, table, kind)
    metric = "eval/return_mean" if kind == "eval" else "charts/episodic_return"
    ylabel = "return (deterministic)" if kind == "eval" else "return (training)"
    return paths + draw_curves(out / "comparison_curves", title, table, metric, ylabel)
