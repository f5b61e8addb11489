"""`geoact paper`."""

import sys
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

from tyro.conf import Positional

from geoact.commands._options import RunsDir, Score


@dataclass(frozen=True)
class Paper:
    """Write the paper's tables and figures from runs, beside the paper's numbers.

    Tables are written as Markdown, LaTeX and CSV, figures as PNG and SVG.
    """

    what: Positional[str]
    """table1, table2, table3, tableA1, tableA2, tableA3, fig3, fig4, fig5, figA1, figA2, figA3, figA4, checkpoints,
    beyond, evidence, or all."""
    _: KW_ONLY
    runs_dir: RunsDir = Path("runs")
    """Where the runs are: a directory of runs, a sweep, or a directory of sweeps."""
    out: Path = Path("paper")
    """Folder to write into."""
    score: Score = "training"
    """What figures show (tables show both). training: the return in training, the paper's quantity; eval: the
    deterministic evaluations."""


def run(options: Paper) -> int:
    """Make what was asked for and print the files."""
    from geoact.training import backend

    backend.set_threads(1)
    from geoact.analysis.reproduction import reproduce

    done = reproduce(options.what, Path(options.runs_dir), Path(options.out), options.score)
    for line in done.skipped:
        print(f"skipped {line}", file=sys.stderr)
    for path in done.written:
        print(path)
    for line in done.missing:
        print(f"missing: {line}")
    return 0
