"""`geoact tag`."""

from dataclasses import KW_ONLY, dataclass
from pathlib import Path

from tyro.conf import Positional, UseAppendAction

from geoact.commands._options import locate


@dataclass(frozen=True)
class Tag:
    """Change the tags and the note of a run, or show them.

    They are kept beside the run (notes.json) and change nothing about it. geoact list shows them.
    """

    run: Positional[Path]
    """The run's directory, or its name in --runs-dir."""
    _: KW_ONLY
    add: UseAppendAction[tuple[str, ...]] = ()
    """A tag to add; may be given several times."""
    remove: UseAppendAction[tuple[str, ...]] = ()
    """A tag to remove; may be given several times."""
    note: str | None = None
    """A remark in place of the one there is."""
    runs_dir: Path = Path("runs")
    """Where runs are looked for by name."""


def run(options: Tag) -> int:
    """Change what was asked for, and print what there is now."""
    from geoact.storage import notes
    from geoact.storage.runs import open_run

    path = open_run(locate(options.run, options.runs_dir)).path
    before = notes.read(path)
    now = before.changed(options.add, options.remove, options.note)
    if now != before:
        notes.write(path, now)
    print(f"tags: {', '.join(now.tags) or 'none'}")
    if now.note:
        print(f"note: {now.note}")
    return 0
