"""Runs as the reports see them: read from disk, told apart by what they are, grouped by task and variant.

A group is one variant on one task: the scores of its finished runs, one per seed, all with the same budget, and
an account of everything that was left out. Foreign and broken directories are skipped and named.

A finished run has two scores: the mean return of the (exploring) training episodes in the last tenth of the run
(`training`), and its last deterministic evaluation (`eval`). A summary of a run (summaries.py) is read as the
run itself; its scores were computed from all of the run's rows, before they were thinned.
"""

import dataclasses
import math
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from geoact.checks import differences
from geoact.config import AlgorithmConfig, RunConfig, defaults
from geoact.errors import InputError
from geoact.experiments.catalogue import (
    EXPERIMENTS,
    Experiment,
    ExperimentTask,
    Variant,
    same_task,
    task_name,
    transitions,
)
from geoact.storage import files
from geoact.storage.runs import Run

Score = Literal["training", "eval"]
SCORES: dict[Score, str] = {
    "training": "training return over the last tenth of each run",
    "eval": "last deterministic evaluation of each run",
}
"""In the order in which they are shown, with what they are."""


@dataclass(frozen=True)
class RunData:
    """One run, read."""

    path: Path
    config: RunConfig
    state: str
    """finished, failed, stopped, running, or interrupted: it says it is running, and no process is."""
    reason: str
    rows: list[dict[str, Any]]
    """Its metrics: finite numbers, each row with a `step`."""
    label: str
    """Its variant in its sweep, or what distinguishes its configuration."""
    summary: dict[str, float | None] | None = None
    """The scores by kind that a summary of a run carries; None for a run with all of its rows."""
    reached: int | None = None
    """The transitions that its status counts: where it failed lies behind its last row."""

    @property
    def task(self) -> str:
        """The task's one name, whichever id the run was started with."""
        return task_name(self.config.env)

    def score(self, kind: Score) -> float | None:
        """How well it did in the end, if it got there."""
        if self.state != "finished":
            return None
        if self.summary is not None:
            return self.summary.get(kind)
        return score_of(self.rows, self.config.timesteps, kind)

    def series(self, name: str) -> list[tuple[dict[str, Any], float]]:
        """The rows that have a metric, with it."""
        return [(row, row[name]) for row in self.rows if name in row]

    def late_mean(self, name: str) -> float | None:
        """A metric's mean over the last tenth of what was trained; None if the run has not logged it."""
        series = [(row["step"], value) for row, value in self.series(name)]
        late = [value for step, value in series if step >= 0.9 * series[-1][0]]
        return sum(late) / len(late) if late else None


def score_of(rows: list[dict[str, Any]], timesteps: int, kind: Score) -> float | None:
    """The score of a finished run with these rows."""
    if kind == "eval":
        return next((row["eval/return_mean"] for row in reversed(rows) if "eval/return_mean" in row), None)
    late = [
        (row["charts/episodic_return"], row.get("charts/episodes", 1))
        for row in rows
        if "charts/episodic_return" in row and row["step"] >= 0.9 * timesteps
    ]
    weight = sum(number for _, number in late)
    return sum(value * number for value, number in late) / weight if weight else None


def read_run(path: Path) -> RunData:
    """A run directory, or an InputError that says what is wrong with it."""
    run = Run(path)
    try:
        config, status, rows = run.config(), run.status(), run.metrics()
        state, reason = run.state(), str(status.get("reason", ""))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    clean = [_checked_row(row, path, number) for number, row in enumerate(rows, 1)]
    label = _label_in_sweep(path) or describe(config)
    reached = status.get("timesteps")
    return RunData(
        path,
        config,
        state,
        reason,
        clean,
        label,
        _summary(status),
        reached if isinstance(reached, int) else None,
    )


def _checked_row(row: Any, path: Path, number: int) -> dict[str, Any]:
    """A row of finite numbers. A metric that is not finite says nothing; without its step, a row says nothing."""
    plain = isinstance(row, dict) and all(isinstance(value, int | float) for value in row.values())
    if not plain or not math.isfinite(row.get("step", math.nan)):
        raise InputError(f"{path / 'metrics.jsonl'} is damaged in line {number}")
    return {name: value for name, value in row.items() if math.isfinite(value)}


def _summary(status: dict[str, Any]) -> dict[str, float | None] | None:
    scores = status.get("scores")
    if not isinstance(scores, dict):
        return None
    return {
        kind: float(value)
        if isinstance(value := scores.get(kind), int | float) and math.isfinite(value)
        else None
        for kind in SCORES
    }


def collect(folder: Path, depth: int = 3) -> tuple[list[RunData], list[str]]:
    """All runs at most `depth` levels below a folder, and a sentence for each that had to be skipped."""
    if not folder.is_dir():
        raise InputError(f"{folder} is not a directory: give the one that runs were written to (--runs)")
    found: list[RunData] = []
    skipped: list[str] = []
    for path in _run_folders(folder, depth, skipped, set()):
        try:
            found.append(read_run(path))
        except InputError as error:
            skipped.append(f"{path.name}: {error}")
    return sorted(found, key=lambda run: run.path), sorted(skipped)


def _run_folders(folder: Path, depth: int, skipped: list[str], seen: set[Path]) -> Iterator[Path]:
    """The run directories below a folder, links followed, each once."""
    try:
        real = folder.resolve()
        if real in seen:
            return
        seen.add(real)
        if (folder / "run.json").is_file():
            yield folder
            return
        inside = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
        folders = [path for path in inside if path.is_dir()] if depth else []
    except (OSError, RuntimeError) as error:  # a RuntimeError is a link that leads to itself
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        skipped.append(f"{folder.name}: {folder} cannot be read: {reason}")
        return
    for path in folders:
        yield from _run_folders(path, depth - 1, skipped, seen)


def _label_in_sweep(path: Path) -> str | None:
    try:
        labels = files.read_json(path.parent / "sweep.json").get("runs")
    except (OSError, InputError):
        return None
    label = labels.get(path.name) if isinstance(labels, dict) else None
    return label if isinstance(label, str) else None


def _action_dim(config: RunConfig) -> int:
    """The size of the action, which some automatic settings follow from: known tasks, else the target entropy's."""
    for experiment in EXPERIMENTS.values():
        for task in experiment.tasks:
            if task.action_dim is not None and same_task(task.env, config.env):
                return task.action_dim
    target = getattr(config.settings, "target_entropy", None)
    return max(1, round(-target)) if isinstance(target, float | int) else 2


def describe(config: RunConfig) -> str:
    """The algorithm and what differs from its defaults, such as `gac radius=1.5`."""
    base, settings = defaults(config.algorithm), config.settings

    def resolved(changes: dict[str, Any]) -> AlgorithmConfig | None:
        try:
            changed = dataclasses.replace(base, **changes)
            return changed.resolve(config.env, _action_dim(config), config.timesteps, config.num_envs)
        except InputError:
            return None

    plain = resolved({}) or base
    changes = {
        f.name: getattr(settings, f.name)
        for f in dataclasses.fields(settings)
        if getattr(settings, f.name) != getattr(plain, f.name)
    }
    for name in list(changes):  # what follows from the others needs no mention
        fewer = {key: value for key, value in changes.items() if key != name}
        if resolved(fewer) == settings:
            changes = fewer
    shown = {
        name: value for name, value in differences(settings, plain).items() if name.split(".")[0] in changes
    }
    return " ".join([config.algorithm, *(f"{name}={value}" for name, value in shown.items())])


def is_variant(run: RunData, task: ExperimentTask, variant: Variant) -> bool:
    """Whether a run is this variant of this task, whatever it was started as."""
    if not same_task(run.config.env, task.env) or task.action_dim is None or not variant.on(task):
        return False
    if variant.num_envs not in (None, run.config.num_envs):
        return False
    try:
        wanted = variant.config().resolve(
            task.env, task.action_dim, run.config.timesteps, run.config.num_envs
        )
    except InputError:
        return False
    return wanted == run.config.settings


@dataclass(frozen=True)
class RunGroup:
    """The runs of one variant on one task."""

    task: str
    label: str
    runs: list[RunData] = field(default_factory=list)
    """Everything that belongs here, one run per seed and budget."""

    @property
    def budgets(self) -> list[tuple[int, int]]:
        """(transitions, environments) of the finished runs, largest first."""
        found = {(r.config.timesteps, r.config.num_envs) for r in self.runs if r.state == "finished"}
        return sorted(found, reverse=True)

    @property
    def budget(self) -> tuple[int, int] | None:
        """The one that counts: the largest that any run has finished, else what is being worked on."""
        if self.budgets:
            return self.budgets[0]
        return max(((r.config.timesteps, r.config.num_envs) for r in self.runs), default=None)

    @property
    def vector_steps(self) -> int | None:
        """The budget that counts, in vector steps."""
        budget = self.budget
        return None if budget is None else -(-budget[0] // budget[1])

    def counted(self) -> list[RunData]:
        """The runs with the budget that counts."""
        return [r for r in self.runs if (r.config.timesteps, r.config.num_envs) == self.budget]

    def scores(self, kind: Score) -> dict[int, float]:
        """Seed -> score of the finished runs."""
        scored = {r.config.seed: r.score(kind) for r in self.counted()}
        return {seed: score for seed, score in sorted(scored.items()) if score is not None}

    def mean(self, kind: Score) -> float | None:
        """The mean score over seeds, if there is one."""
        scores = list(self.scores(kind).values())
        return sum(scores) / len(scores) if scores else None

    def at_end(self, column: str) -> list[float]:
        """What the last rows of the finished runs have in a column."""
        finished = [r for r in self.counted() if r.state == "finished" and r.rows]
        return [r.rows[-1][column] for r in finished if column in r.rows[-1]]

    def remarks(self, kinds: Collection[Score] = ("training", "eval")) -> list[str]:
        """What a reader must know besides the numbers, of these scores."""
        remarks = []
        counted = self.counted()
        failed = [r for r in counted if r.state == "failed"]
        unfinished = [r for r in counted if r.state not in ("failed", "finished")]
        if failed:
            remarks.append(f"{len(failed)} failed ({_failures(failed)})")
        if unfinished:
            remarks.append(f"{len(unfinished)} unfinished")
        names: dict[Score, str] = {"training": "training return", "eval": "evaluation"}
        for kind in kinds:
            without = sum(r.state == "finished" and r.score(kind) is None for r in counted)
            if without:
                remarks.append(f"{without} without {names[kind]}")
        others = len(self.runs) - len(counted)
        if others:
            remarks.append(f"{others} with another budget left out")
        return remarks


def _failures(failed: list[RunData]) -> str:
    """Why and when: `diverged at vector step 5,400 (update 400) and 6,000 (update 1,000)`."""
    moments: dict[str, list[tuple[int, str]]] = {}
    for run in failed:
        reason = run.reason.split(":")[0] or "no reason given"
        update = re.search(r" at update (\d+)", run.reason)
        steps = (run.reached or 0) // run.config.num_envs
        when = f"{steps:,}" + (f" (update {int(update[1]):,})" if update else "")
        moments.setdefault(re.sub(r" at update \d+", "", reason), []).append((steps, when))
    return ", ".join(
        f"{reason} at vector step {' and '.join(dict.fromkeys(when for _, when in sorted(found)))}"
        for reason, found in sorted(moments.items())
    )


def groups_of(experiment: Experiment, runs: list[RunData]) -> dict[tuple[str, str], RunGroup]:
    """(task name, label) -> group, for all of an experiment, empty ones too.

    Where runs of the experiment's own length have finished, those of other lengths belong to other experiments.
    """
    table = {}
    for task in experiment.tasks:
        for label, variant in experiment.variants.items():
            if variant.on(task):
                members = unique([r for r in runs if is_variant(r, task, variant)])
                count = experiment.environments(variant)
                own = transitions(task, count, None, variant.length), count
                of_its_length = [r for r in members if (r.config.timesteps, r.config.num_envs) == own]
                if any(run.state == "finished" for run in of_its_length):
                    members = of_its_length
                table[task.name, label] = RunGroup(task.name, label, members)
    return table


def group(runs: list[RunData]) -> dict[tuple[str, str], RunGroup]:
    """(task, label) -> group, for any runs."""
    table: dict[tuple[str, str], list[RunData]] = {}
    for run in runs:
        table.setdefault((run.task, run.label), []).append(run)
    return {key: RunGroup(*key, unique(members)) for key, members in table.items()}


def unique(runs: list[RunData]) -> list[RunData]:
    """One run per seed and budget: a finished one if there is one, the furthest otherwise."""
    best: dict[tuple[int, int, int], RunData] = {}
    for run in runs:
        key = run.config.timesteps, run.config.num_envs, run.config.seed
        if key not in best or _rank(run) > _rank(best[key]):
            best[key] = run
    return list(best.values())


def _rank(run: RunData) -> tuple[bool, bool, float]:
    """A run with all of its rows comes before its summary, which has the same scores."""
    return run.state == "finished", run.summary is None, run.rows[-1]["step"] if run.rows else -1
