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
    """table1, table2, table3, tableA1, tableA2, tableA3, fig1, fig2, fig3, fig4, figA1, figA2, figA3, figA4,
    checkpoints, beyond, weight, evidence, fast, long, recipe, growing,
    or all."""
    _: KW_ONLY
    runs_dir: RunsDir = Path("runs")
    """Where the runs are: a directory of runs, a sweep, or a directory of sweeps."""
    out: Path = Path("paper")
    """Folder to write into."""
    score: Score = "training"
    """What figures show (tables show both). training: the return in training, the paper's quantity; eval: the
    deterministic evaluations."""


def run(options: Paper) -> int:
    """Make what was asked for; print our numbers beside the paper's, the files, and how to make what is missing."""
    from geoact.training import backend

    backend.set_threads(1)
    from geoact.analysis.reproduction import reproduce

    done = reproduce(options.what, Path(options.runs_dir), Path(options.out), options.score)
    for line in done.skipped:
        print(f"skipped {line}", file=sys.stderr)
    shown: set[Path] = set()
    for answer in done.answers:
        print(f"{answer.name}: {answer.about}")
        if answer.table is not None and answer.table not in shown:
            print(f"\n{answer.table.read_text(encoding='utf-8')}")
            shown.add(answer.table)
        for path in dict.fromkeys([*([answer.table] if answer.table else []), *answer.written]):
            print(path)
        if answer.missing:
            print(f"missing: {answer.name}: {answer.missing}")
    return 0
