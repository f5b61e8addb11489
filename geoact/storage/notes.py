"""Tags and a note that somebody gave a run: notes.json beside run.json. They change nothing about the run."""

import re
from dataclasses import dataclass
from pathlib import Path

from geoact.errors import FileFormatError, InputError
from geoact.storage import files

FILE = "notes.json"


@dataclass(frozen=True)
class Notes:
    """What somebody wants to remember about a run."""

    tags: tuple[str, ...] = ()
    note: str = ""

    def changed(
        self, add: tuple[str, ...] = (), remove: tuple[str, ...] = (), note: str | None = None
    ) -> "Notes":
        """With other tags or another note."""
        check_tags(add)
        tags = dict.fromkeys((*self.tags, *add))
        return Notes(tuple(tag for tag in tags if tag not in remove), self.note if note is None else note)


def check_tags(tags: tuple[str, ...]) -> None:
    """Refuse tags that could not be typed or told apart in a list."""
    for tag in tags:
        if not re.fullmatch(r"[^\s,]+", tag):
            raise InputError(f"a tag is one word without commas, got {tag!r}")


def read(run: Path) -> Notes:
    """The notes of a run; empty where there are none."""
    path = run / FILE
    try:
        data = files.read_json(path)
    except FileNotFoundError:
        return Notes()
    tags, note = data.get("tags", []), data.get("note", "")
    if (
        not isinstance(tags, list)
        or not all(isinstance(tag, str) for tag in tags)
        or not isinstance(note, str)
    ):
        raise FileFormatError(f"{path} is damaged: expected a list of tags and a note")
    return Notes(tuple(tags), note)


def write(run: Path, notes: Notes) -> None:
    """Keep the notes with the run."""
    files.write_json(run / FILE, {"tags": list(notes.tags), "note": notes.note})
