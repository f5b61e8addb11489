"""Files that are never half-written: temporary name, fsync, rename, fsync the folder."""

import contextlib
import ctypes
import errno
import hashlib
import io
import json
import os
import shutil
import time
from collections.abc import Callable, Collection, Generator
from pathlib import Path
from typing import Any, TypeGuard, TypeVar

from geoact.errors import FileFormatError, InputError

T = TypeVar("T")


def sync_folder(folder: Path) -> None:
    """Make a rename in this folder survive a power cut; nothing where the system has no such thing (Windows)."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network file systems cannot
            raise
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


def append(file: io.FileIO, data: bytes) -> None:
    """Add `data` to the end of an unbuffered file, or leave the file as it was."""
    before = file.tell()
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[file.write(rest) or 0 :]
    except BaseException:
        with contextlib.suppress(OSError):
            file.truncate(before)
            file.seek(before)
        raise


def write_json(path: Path, data: Any) -> None:
    """Replace `path` by readable JSON."""
    write_bytes(path, (json.dumps(data, indent=2, allow_nan=False) + "\n").encode())


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file, or an error that names the file."""
    try:
        data = json.loads(path.read_bytes().decode())  # UTF-8 alone: nothing is guessed
    except IsADirectoryError:
        raise FileFormatError(f"{path} is a folder, expected a JSON file") from None
    except PermissionError:
        raise FileFormatError(f"{path} may not be read: permission denied") from None
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{path} is damaged: it is not JSON ({error})") from None
    if not is_object(data):
        raise FileFormatError(f"{path} is damaged: expected a JSON object")
    return data


def is_object(data: object) -> TypeGuard[dict[str, Any]]:
    """Whether something out of a JSON file is an object."""
    return isinstance(data, dict)


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
def new_folder(path: Path, keep: bool = False) -> Generator[Path]:
    """A temporary folder to fill; when the block ends well it takes the place of `path`.

    `keep`: what else lies in `path` is kept, by hard links, so that it is in one of the two at every moment.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    old = path.with_name(f".{path.name}.old")
    remove(temporary)
    temporary.mkdir()
    try:
        yield temporary
        if keep:
            _link_others(path, temporary)
        sync_folder(temporary)
        remove(old)
        if os.path.lexists(path) and not exchange(temporary, path):
            os.rename(path, old)
        if not os.path.lexists(path):
            os.rename(temporary, path)
    except BaseException:
        remove(temporary)
        if os.path.lexists(old) and not os.path.lexists(path):
            os.rename(old, path)
        raise
    sync_folder(path.parent)
    for leftover in (temporary, old):
        if keep:
            _move_others(leftover, path)
        remove(leftover)


def _link_others(folder: Path, into: Path) -> None:
    """The things in a folder that another one lacks, there too."""
    for one in _others(folder, into):
        with contextlib.suppress(OSError, shutil.Error, NotImplementedError):  # it is moved later, then
            if one.is_dir() and not one.is_symlink():
                shutil.copytree(one, into / one.name, symlinks=True, copy_function=os.link)
            else:
                os.link(one, into / one.name, follow_symlinks=False)


def _move_others(folder: Path, into: Path) -> None:
    """What could not be linked, or came meanwhile."""
    for one in _others(folder, into):
        with contextlib.suppress(OSError):
            os.rename(one, into / one.name)


def _others(folder: Path, than: Path) -> list[Path]:
    try:
        return [one for one in folder.iterdir() if not os.path.lexists(than / one.name)]
    except OSError:  # no folder
        return []


def remove(path: Path) -> None:
    """Take away a file, a link or a whole folder, as far as that is possible."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()


def read_consistently(
    read: Callable[[], T],
    watched: Path,
    errors: tuple[type[Exception], ...] = (FileFormatError, FileNotFoundError),
    attempts: int = 50,
    pause: float = 0.002,
) -> T:
    """`read()`, again where it failed because what it reads was being replaced.

    Files that belong together are replaced together, but a reader opens one after the other: it may get the first
    of the old ones and the second of the new. Then `watched`, which is replaced with them, is another file than
    before; a failure while it stayed the same is a true one, and is raised at once.
    """
    for attempt in range(attempts):
        before = _identity(watched)
        try:
            return read()
        except errors:
            same = before is not None and before == _identity(watched)
            # Missing before and after: it may be between two renames, where names cannot be exchanged; not for long.
            if same or attempt == attempts - 1 or (before is None and attempt >= 3):
                raise
        time.sleep(pause * min(attempt, 5))
    raise AssertionError("unreachable")


def _identity(path: Path) -> tuple[int, ...] | None:
    """What another file of the same name would have otherwise."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def exchange(one: Path, other: Path) -> bool:
    """Swap two names in one step (Linux); False where the system cannot.

    Without it a folder could only be replaced by two renames, and a crash between them would leave none.
    """
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError, TypeError):  # a C library without it, or no such library (Windows)
        return False
    at_cwd, swap = -100, 2
    return rename(at_cwd, os.fsencode(one), at_cwd, os.fsencode(other), swap) == 0
