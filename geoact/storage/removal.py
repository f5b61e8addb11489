"""Deleting runs so that none is ever half there: a rename takes it away at once, then its files go."""

import contextlib
import os
import shutil
from pathlib import Path

from geoact.errors import InputError
from geoact.storage import files
from geoact.storage.runs import open_run

_AWAY = ".deleted-"


def check(path: Path) -> Path:
    """The run's directory as it is to be deleted, or an error: only runs that nobody trains can be."""
    run = open_run(path)
    if run.locked():
        raise InputError(f"{path} is being trained: stop it first")
    return Path(os.path.abspath(path))


def size(path: Path) -> int:
    """Bytes of a run on the disk."""
    if path.is_symlink():
        return 0
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(folder, name)).st_size
    return total


def delete(path: Path) -> None:
    """Delete a run. Of a symbolic link to one only the link goes."""
    path = check(path)
    if path.is_symlink():
        path.unlink()
        return
    lock = open_run(path).lock()  # nobody may begin to train it now
    try:
        away = path.with_name(f"{_AWAY}{path.name}-{os.getpid()}")
        os.rename(path, away)
        files.sync_folder(path.parent)
    finally:
        lock.release()
    (away / "run.json").unlink(missing_ok=True)  # what is left, should we be killed here, is no run
    shutil.rmtree(away)
    for leftover in path.parent.glob(f"{_AWAY}*"):
        if not (leftover / "run.json").exists():
            shutil.rmtree(leftover, ignore_errors=True)
