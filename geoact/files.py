"""Files that are never half-written: temporary name, fsync, rename, fsync the folder."""

import contextlib
import ctypes
import hashlib
import json
import os
import shutil
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from geoact.errors import FileFormatError, InputError


def sync_folder(folder: Path) -> None:
    """Make a rename in this folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_bytes(path: Path, data: bytes) -> None:
    """Replace `path` by `data`, or leave it as it was."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    sync_folder(path.parent)


def write_json(path: Path, data: Any) -> None:
    """Replace `path` by readable JSON."""
    write_bytes(path, (json.dumps(data, indent=2, allow_nan=False) + "\n").encode())


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file, or an error that names the file."""
    try:
        data = json.loads(path.read_bytes().decode())  # UTF-8 alone: nothing is guessed
    except IsADirectoryError:
        raise FileFormatError(f"{path} is a folder, expected a JSON file") from None
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{path} is damaged: it is not JSON ({error})") from None
    if not isinstance(data, dict):
        raise FileFormatError(f"{path} is damaged: expected a JSON object")
    return data


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def require_replaceable(folder: Path, names: Collection[str], what: str) -> None:
    """Refuse a place where something else would be lost: `new_folder` replaces the whole folder."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise InputError(f"{folder} is a file: {what} is a folder, choose another place")
    others = sorted(path.name for path in folder.iterdir() if path.name not in names)
    if others:
        raise InputError(
            f"{folder} holds other things than {what} ({', '.join(others[:3])}), which would be lost: "
            "choose another place"
        )


@contextlib.contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A temporary folder to fill; when the block ends well it takes the place of `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    old = path.with_name(f".{path.name}.old")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    try:
        yield temporary
        sync_folder(temporary)
        shutil.rmtree(old, ignore_errors=True)
        if path.exists() and not exchange(temporary, path):
            os.rename(path, old)
        if not path.exists():
            os.rename(temporary, path)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        if old.exists() and not path.exists():
            os.rename(old, path)
        raise
    sync_folder(path.parent)
    for leftover in (temporary, old):
        shutil.rmtree(leftover, ignore_errors=True)


def exchange(one: Path, other: Path) -> bool:
    """Swap two names in one step (Linux); False where the system cannot.

    Without it a folder could only be replaced by two renames, and a crash between them would leave none.
    """
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    at_cwd, swap = -100, 2
    return rename(at_cwd, os.fsencode(one), at_cwd, os.fsencode(other), swap) == 0
