"""TOML files that people write by hand: every complaint names the file, the line and the key."""

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from geoact.errors import InputError


@dataclass(frozen=True)
class TomlFile:
    """A file that was read."""

    path: Path
    text: str
    data: dict[str, Any]

    def refuse(self, keys: tuple[str, ...], message: str) -> InputError:
        """The error for a key that cannot be used; to be raised by the caller."""
        line = _line_of(self.text, keys)
        where = f"line {line}, " if line else ""
        return InputError(f"{self.path}: {where}{'.'.join(keys)}: {message}")


def load(path: Path, what: str) -> TomlFile:
    """Read a file; one that cannot be read, is not TOML or is nested too deeply is refused.

    `what`: what it should be, for the message.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(f"cannot read the {what} {path}: {reason}") from None
    try:
        return TomlFile(path, text, tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path} is not TOML: {error}{_key_near(text, str(error))}") from None
    except RecursionError:
        raise InputError(f"{path} is not a {what}: its tables or lists are nested too deeply") from None


def _line_of(text: str, keys: tuple[str, ...]) -> int | None:
    """The line where a key stands: tomllib does not tell, so headers and assignments are followed by eye."""
    table: tuple[str, ...] = ()
    best: int | None = None
    for number, line in enumerate(text.splitlines(), 1):
        header = re.match(r"\s*\[([^\[\]]+)\]", line)
        if header:
            table = _keys(header[1])
            here = table
        else:
            assignment = re.match(
                r"""\s*((?:"[^"]*"|'[^']*'|[\w.-]+)(?:\s*\.\s*(?:"[^"]*"|'[^']*'|[\w-]+))*)\s*=""", line
            )
            if not assignment:
                continue
            here = table + _keys(assignment[1])
        if here == keys:
            return number
        if best is None and here[: len(keys)] == keys:
            best = number
    return best


def _keys(text: str) -> tuple[str, ...]:
    parts = re.findall(r""""([^"]*)"|'([^']*)'|([\w-]+)""", text)
    return tuple("".join(part) for part in parts)


def _key_near(text: str, message: str) -> str:
    """The key on the line that a syntax error names, for the eye."""
    found = re.search(r"line (\d+)", message)
    lines = text.splitlines()
    number = int(found[1]) if found else len(lines)
    for line in reversed(lines[:number]):
        key = re.match(r"\s*([^=\s][^=]*?)\s*=", line)
        if key:
            return f", near the key {key[1]}"
    return ""
