"""Variants against each other: over the seeds of one task, and over all tasks that they share.

Every table shows both scores of a run, training first (collect.py). A mean never stands without its number of
seeds and its budget, and budgets are never mixed.
"""

import functools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from geoact import statistics
from geoact.errors import InputError
from geoact.experiments.reference import reference
from geoact.report import style
from geoact.report.collect import SCORES, RunData, RunGroup, Score, collect, group
from geoact.report.curves import RETURNS, draw_curves
from geoact.report.tables import Table, Value

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BOOTSTRAP_SEED = 0
KINDS: dict[Score, str] = {"training": "training", "eval": "evaluation"}
"""How the scores are called in columns."""

Groups = Mapping[tuple[str, str], RunGroup]
"""(task, label) -> its runs."""
TaskScores = dict[str, dict[str, list[float]]]
"""Label -> task -> one score per seed."""


def number(value: float) -> str:
    """Returns are shown whole, small ones with two digits."""
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:,.2f}"


def mean_std(scores: Sequence[float], seeds: bool = True) -> str:
    """`4,321 ± 120 (n=5)`; a single run has no spread."""
    found = statistics.mean_std(scores)
    digits = 0 if abs(found.mean) >= 100 else 2
    spread = "" if math.isnan(found.std) else f" ± {found.std:,.{digits}f}"
    return f"{found.mean:,.{digits}f}{spread}" + (f" (n={found.seeds})" if seeds else "")


def details(
    name: str, title: str, groups: Groups, paper: Mapping[tuple[str, str], str] | None = None
) -> Table:
    """One row per variant and task, with everything; `paper`: the paper's entry, where it has one."""
    columns = ["task", "variant"]
    for word in KINDS.values():
        columns += [f"{word} {part}" for part in ("mean", "std", "IQM", "IQM low", "IQM high")]
    numbers = columns[2:]
    columns += ["seeds", "transitions", "vector steps", "remarks"] + ["paper"] * (paper is not None)
    rows: list[list[Value]] = []
    for (task, label), members in groups.items():
        row: list[Value] = [task, label]
        for kind in KINDS:
            row += _five_numbers(task, list(members.scores(kind).values()))
        seeds = max(len(members.scores(kind)) for kind in KINDS)
        remarks = members.remarks() if members.runs else ["no runs"]
        row += [
            seeds,
            members.budget[0] if members.budget else None,
            members.vector_steps,
            "; ".join(remarks),
        ]
        rows.append([*row, paper.get((task, label))] if paper is not None else row)
    notes = [
        *(f"{KINDS[kind].capitalize()}: {what}." for kind, what in SCORES.items()),
        "IQM: interquartile mean, with the limits of its stratified bootstrap 95 % interval, 10,000 replicas.",
    ]
    formats = dict.fromkeys(numbers, ",.1f") | {"transitions": ",", "vector steps": ","}
    return Table(f"{name}_details", f"{title}: details", columns, rows, notes, formats)


def _five_numbers(task: str, scores: list[float]) -> list[Value]:
    """Mean, deviation, interquartile mean and its interval; of one run nothing is known about the spread."""
    if not scores:
        return [None] * 5
    found = statistics.mean_std(scores)
    middle = float(statistics.interquartile_mean({task: scores}))
    if len(scores) == 1:
        return [found.mean, None, middle, None, None]
    interval = statistics.bootstrap_interval(
        statistics.interquartile_mean, {task: scores}, seed=BOOTSTRAP_SEED
    )
    return [found.mean, found.std, middle, float(interval.low), float(interval.high)]


def shared(groups: Groups, kind: Score) -> tuple[list[str], TaskScores]:
    """The tasks that all variants have finished with the same budget, and their scores there.

    Variants with the fewest tasks are left out until something is shared.
    """
    by_label: dict[str, dict[str, RunGroup]] = {}
    for (task, label), members in groups.items():
        if members.scores(kind):
            by_label.setdefault(label, {})[task] = members
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


class Scale(NamedTuple):
    """What the ends of normalised scores are."""

    zero: str
    one: str
    ends: dict[str, tuple[float, float]]
    """Task -> the returns that are 0 and 1."""

    def __str__(self) -> str:
        return f"0: {self.zero}, 1: {self.one}"

    def apply(self, scores: TaskScores) -> TaskScores:
        """Normalised scores; 0.5 where a task's ends are the same."""

        def normalise(score: float, low: float, high: float) -> float:
            return (score - low) / (high - low) if high > low else 0.5

        return {
            label: {task: [normalise(s, *self.ends[task]) for s in seeds] for task, seeds in members.items()}
            for label, members in scores.items()
        }


def scale_of(scores: TaskScores, tasks: list[str]) -> Scale:
    """From random actions to the paper's GAC where all tasks are the paper's; else from the worst run to the best."""
    known = {task: ends for task in tasks if (ends := reference(task)) is not None}
    if len(known) == len(tasks):
        return Scale("random actions", "the paper's GAC", known)
    every = {task: [score for members in scores.values() for score in members[task]] for task in tasks}
    return Scale("worst run shown", "best", {task: (min(each), max(each)) for task, each in every.items()})


def enough_seeds(members: Mapping[str, Sequence[float]]) -> bool:
    """Whether an interval means anything: at least two seeds of a variant on every task."""
    return all(len(seeds) > 1 for seeds in members.values())


def aggregate(name: str, title: str, groups: Groups) -> Table | None:
    """The variants against each other over the tasks they share; None where nothing is shared."""
    rows: list[list[Value]] = []
    notes: list[str] = []
    first, scale = "", None
    for kind, word in KINDS.items():
        tasks, scores = shared(groups, kind)
        if not tasks:
            continue
        first = next(iter(scores))
        scale = scale_of(scores, tasks)
        rows += _aggregate_rows(word, scores, scale.apply(scores))
        plural = "s" * (len(tasks) > 1)
        notes.append(
            f"{word.capitalize()}: over {len(tasks)} task{plural} that all of these have finished with equal budgets: "
            f"{', '.join(tasks)}."
        )
        few = [label for label, members in scores.items() if not enough_seeds(members)]
        if few:
            notes.append(f"No interval ({word}) of {', '.join(few)}: it needs two seeds on every task.")
    if not rows:
        return None
    notes.append(
        f"Normalised per task ({scale}). IQM: interquartile mean over runs and tasks. "
        f"P: probability that a run of {first} has the higher score than one of this variant on the same task, "
        "averaged over tasks. Stratified bootstrap, 10,000 replicas."
    )
    probability = f"P({first} better)"
    columns = [
        "score",
        "variant",
        "IQM, normalised",
        "95 % interval",
        probability,
        "95 % interval of P",
        "runs",
    ]
    formats = {"IQM, normalised": ".3f", probability: ".2f"}
    return Table(f"{name}_aggregate", f"{title}: all tasks together", columns, rows, notes, formats)


def _aggregate_rows(word: str, scores: TaskScores, scaled: TaskScores) -> list[list[Value]]:
    first = next(iter(scores))
    rows: list[list[Value]] = []
    for label in scores:
        enough = enough_seeds(scores[label])
        both = enough and enough_seeds(scores[first])
        middle = statistics.bootstrap_interval(
            statistics.interquartile_mean, scaled[label], seed=BOOTSTRAP_SEED
        )
        better = statistics.bootstrap_interval(
            statistics.probability_of_improvement, scores[first], scores[label], seed=BOOTSTRAP_SEED
        )
        itself = label == first
        rows.append(
            [
                word,
                label,
                float(middle.estimate),
                f"{middle.low:.2f} to {middle.high:.2f}" if enough else "",
                None if itself else float(better.estimate),
                "" if itself or not both else f"{better.low:.2f} to {better.high:.2f}",
                sum(map(len, scores[label].values())),
            ]
        )
    return rows


def pairs(name: str, title: str, groups: Groups) -> Table | None:
    """How likely a run of each variant beats one of each other; None where nothing is shared."""
    found = {word: shared(groups, kind) for kind, word in KINDS.items()}
    labels = list(dict.fromkeys(label for _, scores in found.values() for label in scores))

    def odds(scores: TaskScores, label: str, other: str) -> float | None:
        if label == other or other not in scores:
            return None
        return float(statistics.probability_of_improvement(scores[label], scores[other]))

    rows: list[list[Value]] = [
        [word, label, *(odds(scores, label, other) for other in labels), len(tasks)]
        for word, (tasks, scores) in found.items()
        for label in scores
    ]
    notes = [
        "Probability that a run of the row's variant has the higher score than one of the column's on the same task, "
        "averaged over the tasks that all of these have finished with equal budgets; a tie counts half."
    ]
    columns = ["score", "variant", *labels, "tasks"]
    table = Table(
        f"{name}_pairs", f"{title}: which beats which", columns, rows, notes, dict.fromkeys(labels, ".2f")
    )
    return table if rows else None


def draw_profiles(stem: Path, title: str, groups: Groups, kind: Score) -> list[Path]:
    """Performance profiles: the fraction of runs above each normalised score."""
    tasks, scores = shared(groups, kind)
    if not tasks:
        return []
    with style.drawing():
        figure = style.new_figure(5.2, 3.4)
        axis = figure.subplots()
        plot_profiles(axis, scores, scale_of(scores, tasks))
        plural = "s" * (len(tasks) > 1)
        axis.set_title(style.plain(f"{title}: {len(tasks)} task{plural}, {KINDS[kind]}"))
        axis.legend()
        return style.save_figure(figure, stem)


def plot_profiles(axis: "Axes", scores: TaskScores, scale: Scale) -> None:
    """One curve per variant, with its interval where there are seeds enough."""
    scaled = scale.apply(scores)
    best = max(score for members in scaled.values() for seeds in members.values() for score in seeds)
    levels = np.linspace(0, max(1.0, best), 101)
    profile = functools.partial(statistics.performance_profile, thresholds=levels)
    colors = style.colors_of(scaled)
    for label, members in scaled.items():
        found = statistics.bootstrap_interval(profile, members, seed=BOOTSTRAP_SEED, replicas=2_000)
        runs = sum(map(len, members.values()))
        axis.plot(levels, found.estimate, color=colors[label], label=style.plain(f"{label} ({runs} runs)"))
        if enough_seeds(members):
            axis.fill_between(levels, found.low, found.high, color=colors[label], alpha=0.15, lw=0)
    axis.set(
        xlabel=f"normalised score\n{scale}",
        ylabel="fraction of runs above",
        ylim=(-0.02, 1.02),
    )


def first_reaches(run: RunData, kind: Score, threshold: float) -> float | None:
    """Transitions until a run's return, as it was logged, is first this high."""
    points = run.series(RETURNS[kind][0])
    return next((row["step"] for row, value in points if value >= threshold), None)


def steps_to(threshold: float, groups: Groups) -> Table:
    """How soon each variant first reaches a return, in training and in its evaluations."""
    rows: list[list[Value]] = []
    for (task, label), members in groups.items():
        runs = members.counted()
        for kind, word in KINDS.items():
            reached = [first_reaches(run, kind, threshold) for run in runs]
            steps = [step for step in reached if step is not None]
            middle = float(np.median(steps)) if steps else None
            vector = middle / runs[0].config.num_envs if middle is not None else None
            rows.append([task, label, word, len(runs), len(steps), middle, vector])
    columns = ["task", "variant", "return", "runs", "runs that reach it", "transitions", "vector steps"]
    notes = [
        f"Until the return first reaches {number(threshold)}: median over the runs that do. A training return is the "
        "mean of the episodes since the row logged before; evaluations are as far apart as the run has them."
    ]
    formats = {"transitions": ",.0f", "vector steps": ",.0f"}
    title = f"Steps until the return is {number(threshold)}"
    return Table("comparison_threshold", title, columns, rows, notes, formats)


def compare_runs(
    paths: Sequence[Path], out: Path, kind: Score = "eval", threshold: float | None = None
) -> tuple[list[Path], list[str]]:
    """Compare any runs, or directories of them: the files written, and a sentence for each run that was skipped.

    Tables show both scores, figures the one asked for; with a threshold, also the steps to it. What `geoact compare`
    does.
    """
    if not paths:
        raise InputError("give at least one run directory to compare")
    runs: list[RunData] = []
    skipped: list[str] = []
    for path in paths:
        found, broken = collect(path)
        if not found and not broken:
            raise InputError(f"{path} is not a run and holds none")
        runs, skipped = runs + found, skipped + broken
    if not runs:
        raise InputError("none of these is a run that can be read: " + "; ".join(skipped))
    groups = group(runs)
    written = compare(groups, out, kind)
    return written + (steps_to(threshold, groups).write(out) if threshold is not None else []), skipped


def compare(groups: Groups, out: Path, kind: Score = "eval", title: str = "Comparison") -> list[Path]:
    """Tables with both scores, and the figures of one; the files written."""
    paths = details("comparison", title, groups).write(out)
    together = aggregate("comparison", title, groups)
    if together is not None:
        paths += together.write(out)
        paths += draw_profiles(out / "comparison_profiles", title, groups, kind)
    return paths + draw_curves(out / "comparison_curves", title, groups, kind)
