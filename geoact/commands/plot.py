"""`geoact plot`."""

from dataclasses import KW_ONLY, dataclass
from pathlib import Path

from geoact.commands._options import Runs, locate
from geoact.errors import InputError


@dataclass(frozen=True)
class Plot:
    """Draw the learning curves of runs."""

    runs: Runs
    """Runs: their directories, or their names in --runs-dir."""
    _: KW_ONLY
    out: Path = Path("curves.png")
    """Picture to write (.png, .svg or .pdf)."""
    runs_dir: Path = Path("runs")
    """Where runs are looked for by name."""

    def __post_init__(self) -> None:
        if not self.runs:
            raise InputError("give at least one run directory to plot")


def run(options: Plot) -> int:
    """Draw the picture."""
    from geoact.report.curves import draw_runs
    from geoact.storage.runs import open_run

    draw_runs([open_run(locate(path, options.runs_dir)) for path in options.runs], options.out)
    print(f"curves: {options.out}")
    return 0
