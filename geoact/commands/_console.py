"""Printing and asking, where nobody may be listening."""

import contextlib
import os
import sys
from collections.abc import Generator
from typing import Any, TextIO


class _Unbreakable:
    """A stream that goes on when its reader has gone: a pipe that is closed, a terminal, a full disk."""

    def __init__(self, stream: TextIO):
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError:
            silence()
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError:
            silence()


@contextlib.contextmanager
def unbreakable() -> Generator[None]:
    """Inside, a reader that leaves (`geoact train ... | head`, a closed terminal) ends the printing, not the work."""
    before = sys.stdout
    sys.stdout = _Unbreakable(before)  # type: ignore[assignment]
    try:
        yield
    finally:
        sys.stdout = before


def silence() -> None:
    """Send what is still to be printed nowhere, so that nothing complains about a pipe that is gone."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def on_terminal() -> bool:
    """Whether somebody is there to answer."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def agrees(question: str) -> bool:
    """Ask on a terminal; elsewhere nobody is there to answer, which is a no."""
    return on_terminal() and input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
