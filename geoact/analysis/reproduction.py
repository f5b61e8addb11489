"""Everything that the paper shows, by its name there: what `geoact paper` does, as a function.

Tables and figures of training come from runs (report/paper_tables.py); the others are studies of their own.
"""

from dataclasses import dataclass, field
from pathlib import Path

from geoact.analysis.studies import STUDIES, analyze
from geoact.errors import InputError
from geoact.report import paper_tables
from geoact.report.collect import RunData, Score, collect
from geoact.report.paper_tables import FROM_RUNS, ITEMS


@dataclass(frozen=True)
class Reproduction:
    """What was made, and how to make what is missing."""

    written: list[Path] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    """`item: what it lacks: the command that makes it`, for each that is not complete."""
    skipped: list[str] = field(default_factory=list)
    """A sentence for each run that could not be read."""


def reproduce(what: str, runs_dir: Path, out: Path, kind: Score = "training", seed: int = 0) -> Reproduction:
    """A table or figure of the paper by its name, or `all` of those that are made from runs.

    Tables show both scores of our runs; `kind` is the one that figures show. A study is made at once when it is
    asked for by name; `all` says how to make it.
    """
    name = "all" if what == "all" else paper_tables.resolve(what)
    if name != "all" and ITEMS[name].kind == "checkpoints":
        return Reproduction(missing=[f"{name}: {paper_tables.how_to_make(name)}"])
    if name != "all" and ITEMS[name].kind == "study" and not STUDIES[ITEMS[name].source].reads_runs:
        return Reproduction(analyze(ITEMS[name].source, out, seed=seed))
    runs, skipped = collect(runs_dir)
    done = Reproduction(skipped=skipped)
    if name != "all" and ITEMS[name].kind == "study":
        done.written.extend(analyze(ITEMS[name].source, out, _policies(name, runs, runs_dir), seed))
        return done
    for item in ITEMS if name == "all" else [name]:
        if item in FROM_RUNS:
            done.written.extend(paper_tables.make(item, runs, skipped, out, kind))
        lacking = paper_tables.missing(item, runs)
        if lacking is not None:
            done.missing.append(f"{item}: {lacking}")
    return done


def _policies(name: str, runs: list[RunData], runs_dir: Path) -> list[Path]:
    """Runs with a trained policy on the paper's task, HalfCheetah, one of each variant."""
    chosen: dict[tuple[str, str], Path] = {}
    for run in runs:
        if run.task.startswith("HalfCheetah-") and (run.path / "policy" / "policy.json").is_file():
            chosen.setdefault((run.task, run.label), run.path)
    if not chosen:
        raise InputError(
            f"{name} looks at policies trained on HalfCheetah, and {runs_dir} has none (summaries have no policies): "
            f"{paper_tables.how_to_make(name)}"
        )
    return list(chosen.values())
