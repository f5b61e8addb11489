"""One process at a time: a lock that the system holds and that ends with its process, however that ends.

`flock` where there is one (Linux, macOS); on Windows the lock of a byte far behind the file's end, so that the file
itself can still be read, since locks there forbid reading.
"""

import contextlib
import importlib
import os
import time
from pathlib import Path
from typing import IO, Any

from geoact.errors import InputError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None
try:
    msvcrt: Any = importlib.import_module("msvcrt")
except ImportError:  # everywhere but Windows
    msvcrt = None

FAR = 1 << 30
"""The byte that is locked on Windows."""


def try_lock(file: IO[bytes], shared: bool = False) -> bool:
    """Lock an open file until it is closed; False while another process has it."""
    if fcntl is not None:
        how = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        try:
            fcntl.flock(file, how | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    elif msvcrt is not None:
        place = file.tell()
        file.seek(FAR)
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        finally:
            file.seek(place)
    return True


def held(path: Path) -> bool:
    """Whether a living process holds the lock in this file."""
    try:
        with open(path, "rb" if fcntl is not None else "r+b") as file:
            return not try_lock(file, shared=True)
    except OSError:  # never locked, or not readable
        return False


class Lock:
    """An exclusive lock on a run's directory."""

    def __init__(self, folder: Path):
        self._file = open(folder / "lock", "a+b")  # noqa: SIM115 (closed in release)
        if not self._acquire():
            self._file.seek(0)
            holder = self._file.read(20).decode("ascii", "replace").strip()
            self._file.close()
            raise InputError(
                f"{folder} is being trained by another process ({holder or 'unknown'}): wait for it or stop it first"
            )
        self._file.truncate(0)
        self._file.write(f"{os.getpid()}\n".encode())
        self._file.flush()

    def _acquire(self) -> bool:
        for _ in range(3):
            if try_lock(self._file):
                return True
            time.sleep(0.1)  # someone who only asks (`held`) has it for an instant
        return try_lock(self._file)

    def release(self) -> None:
        with contextlib.suppress(OSError):
            self._file.close()
