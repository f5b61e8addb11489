"""The runs of a directory, one line each: where they stand, how well they did, what was noted about them."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from geoact.errors import InputError
from geoact.experiments.catalogue import same_task
from geoact.storage import files, notes
from geoact.storage.runs import Run, best_evaluation, find_runs

Order = Literal["name", "best", "progress", "time"]


@dataclass(frozen=True)
class Listed:
    """One run. Of a damaged one only its name and what is wrong with it are known."""

    run: str
    path: str
    state: str
    env: str = ""
    algorithm: str = ""
    seed: int | None = None
    timesteps: int | None = None
    total: int | None = None
    best: float | None = None
    """Highest mean return of an evaluation."""
    best_at: int | None = None
    """Transitions when it was reached."""
    created: str = ""
    tags: tuple[str, ...] = ()
    note: str = ""
    error: str = ""

    @property
    def progress(self) -> float:
        """Share of the run that is done."""
        return self.timesteps / self.total if self.timesteps is not None and self.total else 0.0

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def listed(runs_dir: Path) -> list[Listed]:
    """Every run in a directory, by name; damaged ones too."""
    return [_read(run) for run in find_runs(runs_dir)]


def _read(run: Run) -> Listed:
    name, path = run.path.name, str(run.path)
    try:
        config, status, noted = run.config(), run.status(), notes.read(run.path)
        best = best_evaluation(run.metrics())
        return Listed(
            run=name,
            path=path,
            state=run.state(),
            env=config.env,
            algorithm=config.algorithm,
            seed=config.seed,
            timesteps=int(status["timesteps"]),
            total=int(status["total"]),
            best=best[0] if best else None,
            best_at=int(best[1]) if best else None,
            created=str(files.read_json(run.path / "run.json").get("created", "")),
            tags=noted.tags,
            note=noted.note,
        )
    except OSError as error:
        return Listed(name, path, "damaged", error=f"cannot be read: {error.strerror}")
    except (InputError, KeyError, TypeError, ValueError, AttributeError) as error:
        return Listed(name, path, "damaged", error=str(error))


def chosen(
    runs: list[Listed],
    env: str | None = None,
    algorithm: str | None = None,
    state: str | None = None,
    tags: tuple[str, ...] = (),
) -> list[Listed]:
    """The runs that fit everything that is asked for; of tags all must be there."""
    return [
        run
        for run in runs
        if (env is None or same_task(env, run.env))
        and (algorithm is None or run.algorithm == algorithm)
        and (state is None or run.state == state)
        and set(tags) <= set(run.tags)
    ]


def best_of_each_task(runs: list[Listed]) -> list[Listed]:
    """Of each task the run with the highest evaluation; runs that have none are left out."""
    best: list[Listed] = []
    for run in sorted((run for run in runs if run.best is not None), key=_score):
        if not any(same_task(run.env, other.env) for other in best):
            best.append(run)
    return ordered(best, "name")


def ordered(runs: list[Listed], by: Order) -> list[Listed]:
    """By name; or the best, the furthest or the newest first."""
    runs = sorted(runs, key=lambda run: run.run)
    if by == "best":
        return sorted(runs, key=_score)
    if by == "progress":
        return sorted(runs, key=lambda run: -run.progress)
    return sorted(runs, key=lambda run: run.created, reverse=True) if by == "time" else runs


def _score(run: Listed) -> float:
    return -run.best if run.best is not None else float("inf")


def columns(rows: list[tuple[str, ...]], numeric: frozenset[int] = frozenset()) -> list[str]:
    """Rows of text as aligned lines, as wide as they need to be: nothing is ever cut."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    return [
        "  ".join(
            cell.rjust(width) if i in numeric else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths))
        ).rstrip()
        for row in rows
    ]
