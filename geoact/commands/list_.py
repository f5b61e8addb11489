"""`geoact list`."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tyro.conf import UseAppendAction

if TYPE_CHECKING:
    from geoact.report import listing


@dataclass(frozen=True, kw_only=True)
class List:
    """Show the runs in a directory.

    One line for each: its state, how much of it is done, its best evaluation and when that was, its tags and note.
    """

    runs_dir: Path = Path("runs")
    """Where the runs are."""
    sort: Literal["name", "best", "progress", "time"] = "name"
    """name: by name; best: the best evaluation first; progress: the furthest first; time: the newest first."""
    env: str | None = None
    """Only runs on this environment."""
    algorithm: str | None = None
    """Only runs of this algorithm."""
    state: Literal["running", "finished", "stopped", "interrupted", "failed", "damaged"] | None = None
    """Only runs in this state."""
    tag: UseAppendAction[tuple[str, ...]] = ()
    """Only runs with this tag; may be given several times."""
    best: bool = False
    """Of each environment only the run with the best evaluation."""
    json: bool = False
    """Print a JSON list of objects."""


def run(options: List) -> int:
    """Read and print."""
    from geoact.report import listing

    found = listing.chosen(
        listing.listed(options.runs_dir), options.env, options.algorithm, options.state, options.tag
    )
    runs = listing.ordered(listing.best_of_each_task(found) if options.best else found, options.sort)
    if options.json:
        print(json.dumps([run.to_json() for run in runs], indent=2))
        return 0
    if not runs:
        asked = options.env or options.algorithm or options.state or options.tag or options.best
        hint = "none fits what was asked for" if asked else "geoact train makes one"
        print(f"no runs in {options.runs_dir}: {hint}")
        return 0
    header = ("run", "state", "progress", "best evaluation", "at", "tags", "note")
    rows = [header, *(_row(run) for run in runs)]
    kept = [
        i for i, name in enumerate(header) if name not in ("tags", "note") or any(row[i] for row in rows[1:])
    ]
    rows = [tuple(row[i] for i in kept) for row in rows]
    for line in listing.columns(rows, frozenset({2, 3, 4})):
        print(line)
    return 0


def _row(run: "listing.Listed") -> tuple[str, ...]:
    if run.state == "damaged":
        return run.run, run.state, "", "", "", "", run.error
    best = (f"{run.best:,.1f}", f"{run.best_at:,}") if run.best is not None else ("", "")
    return run.run, run.state, f"{100 * run.progress:.0f}%", *best, ",".join(run.tags), run.note
