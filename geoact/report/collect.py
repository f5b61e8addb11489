"""Runs as the reports see them: read from disk, told apart by what they are, gathered into cells.

A cell is one variant on one task: the scores of its finished runs, one per seed, all with the same budget, and
an account of everything that was left out. Foreign and broken directories are skipped and named.

The score of a run is its last deterministic evaluation (`eval`), or the mean return of the training episodes in
the last tenth of the run (`training`).
"""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from geoact import files
from geoact.config import AlgorithmConfig, RunConfig, defaults
from geoact.errors import InputError
from geoact.experiments.catalogue import EXPERIMENTS, Experiment, Task, Variant, same_task
from geoact.runs import Run

Score = Literal["eval", "training"]


@dataclass(frozen=True)
class Record:
    """One run, read."""

    path: Path
    config: RunConfig
    state: str
    reason: str
    rows: list[dict[str, Any]]
    label: str
    """Its variant in its sweep, or what distinguishes its configuration."""

    def score(self, kind: Score) -> float | None:
        """How well it did in the end, if it got there."""
        if self.state != "finished":
            return None
        if kind == "eval":
            return next((r["eval/return_mean"] for r in reversed(self.rows) if "eval/return_mean" in r), None)
        late = [
            (row["charts/episodic_return"], row.get("charts/episodes", 1))
            for row in self.rows
            if "charts/episodic_return" in row and row["step"] >= 0.9 * self.config.timesteps
        ]
        weight = sum(number for _, number in late)
        return sum(value * number for value, number in late) / weight if weight else None

    def series(self, name: str) -> list[tuple[dict[str, Any], float]]:
        """The rows that have a metric, with it."""
        return [(row, row[name]) for row in self.rows if name in row]


def read_run(path: Path) -> Record:
    """A run directory, or an InputError that says what is wrong with it."""
    run = Run(path)
    try:
        config, status, rows = run.config(), run.status(), run.metrics()
        state, reason = str(status.get("state")), str(status.get("reason", ""))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    for number, row in enumerate(rows, 1):
        plain = isinstance(row, dict) and all(isinstance(v, int | float) for v in row.values())
        if not plain or "step" not in row:
            raise InputError(f"{path / 'metrics.jsonl'} is damaged in line {number}")
    return Record(path, config, state, reason, rows, _label_in_sweep(path) or describe(config))


def collect(folder: Path, depth: int = 3) -> tuple[list[Record], list[str]]:
    """All runs at most `depth` levels below a folder, and a sentence for each that had to be skipped."""
    if not folder.is_dir():
        raise InputError(f"{folder} is not a directory: give the one that runs were written to (--runs)")
    records: list[Record] = []
    skipped: list[str] = []
    for path in sorted(_run_folders(folder, depth)):
        try:
            records.append(read_run(path))
        except InputError as error:
            skipped.append(f"{path.name}: {error}")
    return records, skipped


def _run_folders(folder: Path, depth: int) -> Iterable[Path]:
    if (folder / "run.json").is_file():
        yield folder
        return
    if depth == 0:
        return
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink() and not path.name.startswith("."):
            yield from _run_folders(path, depth - 1)


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

    plain = resolved({})
    changes = {
        f.name: getattr(settings, f.name)
        for f in dataclasses.fields(settings)
        if plain is None or getattr(settings, f.name) != getattr(plain, f.name)
    }
    for name in list(changes):  # what follows from the others needs no mention
        fewer = {key: value for key, value in changes.items() if key != name}
        if resolved(fewer) == settings:
            changes = fewer
    return " ".join([config.algorithm, *(f"{name}={value}" for name, value in changes.items())])


def is_variant(record: Record, task: Task, variant: Variant) -> bool:
    """Whether a run is this variant of this task, whatever it was started as."""
    if not same_task(record.config.env, task.env) or task.action_dim is None:
        return False
    if variant.tasks is not None and task.env not in variant.tasks:
        return False
    try:
        wanted = variant.config().resolve(
            task.env, task.action_dim, record.config.timesteps, record.config.num_envs
        )
    except InputError:
        return False
    return wanted == record.config.settings


@dataclass(frozen=True)
class Cell:
    """One variant on one task."""

    task: str
    label: str
    records: list[Record] = field(default_factory=list)
    """Everything that belongs here, one run per seed and budget."""

    @property
    def budgets(self) -> list[tuple[int, int]]:
        """(transitions, environments) of the finished runs, largest first."""
        found = {(r.config.timesteps, r.config.num_envs) for r in self.records if r.state == "finished"}
        return sorted(found, reverse=True)

    @property
    def budget(self) -> tuple[int, int] | None:
        """The one that counts: the largest that any run has finished, else what is being worked on."""
        if self.budgets:
            return self.budgets[0]
        return max(((r.config.timesteps, r.config.num_envs) for r in self.records), default=None)

    def counted(self) -> list[Record]:
        """The runs with the budget that counts."""
        return [r for r in self.records if (r.config.timesteps, r.config.num_envs) == self.budget]

    def scores(self, kind: Score) -> dict[int, float]:
        """Seed -> score of the finished runs."""
        scored = {r.config.seed: r.score(kind) for r in self.counted()}
        return {seed: score for seed, score in sorted(scored.items()) if score is not None}

    def remarks(self, kind: Score) -> list[str]:
        """What a reader must know besides the numbers."""
        said = []
        counted = self.counted()
        failed = [r for r in counted if r.state == "failed"]
        going = [r for r in counted if r.state not in ("failed", "finished")]
        silent = sum(r.state == "finished" and r.score(kind) is None for r in counted)
        if failed:
            reasons = sorted({r.reason.split(":")[0] or "no reason given" for r in failed})
            said.append(f"{len(failed)} failed ({', '.join(reasons)})")
        if going:
            said.append(f"{len(going)} unfinished")
        if silent:
            said.append(f"{silent} without a score")
        others = len(self.records) - len(counted)
        if others:
            said.append(f"{others} with another budget left out")
        return said


def cells(experiment: Experiment, records: list[Record]) -> dict[tuple[str, str], Cell]:
    """(task name, label) -> cell, for all of an experiment, empty ones too."""
    table = {}
    for task in experiment.tasks:
        for label, variant in experiment.variants.items():
            if variant.tasks is None or task.env in variant.tasks:
                members = unique([r for r in records if is_variant(r, task, variant)])
                table[task.name, label] = Cell(task.name, label, members)
    return table


def group(records: list[Record]) -> dict[tuple[str, str], Cell]:
    """(environment, label) -> cell, for any runs."""
    table: dict[tuple[str, str], Cell] = {}
    for record in records:
        key = record.config.env, record.label
        table.setdefault(key, Cell(*key)).records.append(record)
    return {key: Cell(*key, unique(cell.records)) for key, cell in table.items()}


def unique(records: list[Record]) -> list[Record]:
    """One run per seed and budget: a finished one if there is one, the furthest otherwise."""
    best: dict[tuple[int, int, int], Record] = {}
    for record in records:
        key = record.config.timesteps, record.config.num_envs, record.config.seed
        if key not in best or _rank(record) > _rank(best[key]):
            best[key] = record
    return list(best.values())


def _rank(record: Record) -> tuple[bool, float]:
    return record.state == "finished", record.rows[-1]["step"] if record.rows else -1
