"""`geoact summarize`."""

import sys
from dataclasses import dataclass
from pathlib import Path

from geoact.commands._options import RunsDir
from geoact.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Summarize:
    """Copy finished runs as summaries of a few kilobytes, fit to be committed.

    Tables, figures and reports read summaries as they read runs, and a sweep counts them as finished.
    """

    runs_dir: RunsDir = Path("runs")
    """Where the runs are: a directory of runs, a sweep, or a directory of sweeps."""
    out: Path
    """Folder to write into; a summary of the same run is replaced, others stay."""
    timesteps: int | None = None
    """Summarise longer runs as what they were after this many transitions, for a comparison at equal budget."""


def run(options: Summarize) -> int:
    """Write the summaries and say how many."""
    from geoact.report.summaries import summarize

    if options.timesteps is not None and options.timesteps < 1:
        raise InputError(f"timesteps must be greater than 0, got {options.timesteps}")
    done = summarize(Path(options.runs_dir), Path(options.out), options.timesteps)
    for line in done.left_out:
        print(f"left out {line}", file=sys.stderr)
    print(f"{options.out}: {len(done.written)} summaries")
    return 0
