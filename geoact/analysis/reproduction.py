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
from geoact.storage import files


@dataclass(frozen=True)
class Answer:
    """What there is of one table or figure."""

    name: str
    about: str
    """What it shows, and whether ours and the paper's are the same quantity."""
    written: list[Path] = field(default_factory=list)
    table: Path | None = None
    """Our numbers beside the paper's, as Markdown: just written, or made before."""
    missing: str | None = None
    """What it lacks, and the command that makes it."""


@dataclass(frozen=True)
class Reproduction:
    """What was made, and how to make what is missing."""

    answers: list[Answer] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    """A sentence for each run that could not be read."""

    @property
    def written(self) -> list[Path]:
        return [path for answer in self.answers for path in answer.written]

    @property
    def missing(self) -> list[str]:
        """`item: what it lacks: the command that makes it`, for each that is not complete."""
        return [f"{answer.name}: {answer.missing}" for answer in self.answers if answer.missing]


def reproduce(what: str, runs_dir: Path, out: Path, kind: Score = "training", seed: int = 0) -> Reproduction:
    """A table or figure of the paper by its name, or `all` of them.

    Tables show both scores of our runs; `kind` is the one that figures show. A study that is asked for by name is made;
    `all` shows what was made before, in `out`, `runs_dir` or its folder `analysis`, and else says how to make it.
    """
    if what != "all":
        name = paper_tables.resolve(what)
        if ITEMS[name].kind == "study" and not STUDIES[ITEMS[name].source].reads_runs:
            return Reproduction([_studied(name, analyze(ITEMS[name].source, out, seed=seed))])
        runs, skipped = collect(runs_dir)
        if ITEMS[name].kind == "study":
            policies = _policies(name, runs, runs_dir)
            return Reproduction([_studied(name, analyze(ITEMS[name].source, out, policies, seed))], skipped)
        return Reproduction([_answer(name, runs, skipped, runs_dir, out, kind)], skipped)
    runs, skipped = collect(runs_dir)
    return Reproduction([_answer(name, runs, skipped, runs_dir, out, kind) for name in ITEMS], skipped)


def _about(name: str) -> str:
    item = ITEMS[name]
    return item.about + (f" (called {item.before} in version 0.1)" if item.before else "")


def _studied(name: str, written: list[Path]) -> Answer:
    table = next((path for path in written if path.suffix == ".md"), None)
    return Answer(name, _about(name), written, table)


def _answer(
    name: str, runs: list[RunData], skipped: list[str], runs_dir: Path, out: Path, kind: Score
) -> Answer:
    """What can be said of an item without a new study."""
    about, how = _about(name), paper_tables.how_to_make(name)
    if name in FROM_RUNS:
        written = paper_tables.make(name, runs, skipped, out, kind)
        table = out / f"{name}.md"
        lacking = paper_tables.missing(name, runs)
        return Answer(name, about, written, table if table in written else None, lacking)
    if ITEMS[name].kind == "words":
        return Answer(name, f"{about}: {how}")
    if ITEMS[name].kind == "checkpoints":
        made = paper_tables.checkpoints(runs_dir)
        if made is None:
            return Answer(name, about, missing=how)
        written = made.write(out)
        return Answer(name, about, written, written[0])
    folders = (out, runs_dir, runs_dir / "analysis")
    tables = [folder / f"{ITEMS[name].source}.md" for folder in folders]
    found = next((table for table in tables if table.is_file()), None)
    return Answer(name, about, table=found, missing=None if found else how)


def _policies(name: str, runs: list[RunData], runs_dir: Path) -> list[Path]:
    """Policies trained on the paper's task, HalfCheetah: of runs, one of each variant, and all that stand alone."""
    chosen: dict[tuple[str, str], Path] = {}
    for run in runs:
        if run.task.startswith("HalfCheetah-") and (run.path / "policy" / "policy.json").is_file():
            chosen.setdefault((run.task, run.label), run.path)
    policies = [*chosen.values(), *_policy_folders(runs_dir)]
    if not policies:
        raise InputError(
            f"{name} looks at policies trained on HalfCheetah, and {runs_dir} has none (summaries have no policies): "
            f"{paper_tables.how_to_make(name)}"
        )
    return policies


def _policy_folders(folder: Path, depth: int = 3) -> list[Path]:
    """Policies of HalfCheetah at most `depth` levels below a folder that are not part of a run."""
    found: list[Path] = []
    for level in range(1, depth + 1):
        for path in sorted(folder.glob("*/" * level + "policy.json")):
            if (path.parents[1] / "run.json").exists():
                continue
            try:
                env = str(files.read_json(path).get("env"))
            except InputError:
                continue
            if env.startswith("HalfCheetah-"):
                found.append(path.parent)
    return found
