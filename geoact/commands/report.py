"""`geoact report`."""

import sys
from dataclasses import dataclass
from pathlib import Path

from geoact.commands._options import RunsDir
from geoact.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Report:
    """Write one HTML page about a directory of runs.

    The page needs nothing else: it can be sent and opened anywhere.
    """

    runs_dir: RunsDir = Path("runs")
    """Where the runs are: a directory of runs, a sweep, or a directory of sweeps."""
    out: Path = Path("report.html")
    """Page to write."""
    title: str | None = None
    """Its heading. Without it: the directory's name."""

    def __post_init__(self) -> None:
        if Path(self.out).suffix not in (".html", ".htm"):
            raise InputError(f"cannot write {Path(self.out).name}: use a name that ends in .html")


def run(options: Report) -> int:
    """Read the runs and write the page."""
    from geoact.report.page import write_report

    runs, skipped = write_report(Path(options.runs_dir), Path(options.out), options.title)
    for line in skipped:
        print(f"skipped {line}", file=sys.stderr)
    print(f"report: {options.out} ({len(runs)} runs)")
    return 0
