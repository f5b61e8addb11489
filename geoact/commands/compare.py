"""`geoact compare`."""

import sys
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

from geoact.commands._options import Runs, RunsDir, Score, locate


@dataclass(frozen=True)
class Compare:
    """Compare any runs: table, statistics over seeds, learning curves."""

    runs: Runs = ()
    """Runs, or directories of them, or names in --runs-dir. Without any: everything in --runs-dir."""
    _: KW_ONLY
    runs_dir: RunsDir = Path("runs")
    """Where runs are looked for by name."""
    out: Path = Path("comparison")
    """Folder to write into."""
    threshold: float | None = None
    """Also say how many steps each variant takes to this return."""
    score: Score = "eval"
    """What figures show (tables show both). eval: the deterministic evaluations; training: the return in training."""


def run(options: Compare) -> int:
    """Read the runs, compare them and print the files."""
    from geoact.report.comparison import compare_runs

    paths = [locate(path, options.runs_dir) for path in options.runs or (options.runs_dir,)]
    written, skipped = compare_runs(paths, Path(options.out), options.score, options.threshold)
    for line in skipped:
        print(f"skipped {line}", file=sys.stderr)
    for path in written:
        print(path)
    return 0
