"""`geoact delete`."""

from dataclasses import KW_ONLY, dataclass
from pathlib import Path

from geoact.commands._console import agrees, on_terminal
from geoact.commands._options import Runs, locate
from geoact.errors import InputError


@dataclass(frozen=True)
class Delete:
    """Delete runs, with everything in their directories.

    On a terminal it asks first. A run that is being trained is not deleted.
    """

    runs: Runs
    """Runs: their directories, or their names in --runs-dir."""
    _: KW_ONLY
    yes: bool = False
    """Do not ask."""
    runs_dir: Path = Path("runs")
    """Where runs are looked for by name."""

    def __post_init__(self) -> None:
        if not self.runs:
            raise InputError("give at least one run to delete")


def run(options: Delete) -> int:
    """Delete them all, or none if one cannot be."""
    from geoact.storage import removal

    paths = list(dict.fromkeys(removal.check(locate(path, options.runs_dir)) for path in options.runs))
    if not options.yes:
        size = sum(map(removal.size, paths)) / 1e6
        what = f"{paths[0] if len(paths) == 1 else f'{len(paths)} runs'} ({size:,.1f} MB)"
        if not on_terminal():
            raise InputError(f"nobody is there to be asked whether to delete {what}: add --yes")
        if not agrees(f"delete {what}?"):
            print("nothing was deleted")
            return 0
    for path in paths:
        removal.delete(path)
        print(f"deleted: {path}")
    return 0
