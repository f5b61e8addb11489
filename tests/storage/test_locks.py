"""One process at a time, also where there is no flock."""

import subprocess
import sys
import types

import pytest

from geoact.errors import InputError
from geoact.storage import locks
from geoact.storage.locks import Lock, held


class Windows:
    """msvcrt's lock of a byte, as far as one process can show it."""

    LK_NBLCK = 2

    def __init__(self) -> None:
        self.holder: int | None = None

    def locking(self, descriptor: int, how: int, count: int) -> None:
        assert how == self.LK_NBLCK and count == 1
        if self.holder is not None:
            raise PermissionError(13, "Permission denied")
        self.holder = descriptor


@pytest.mark.parametrize("system", ["flock", "msvcrt", "neither"])
def test_a_lock_is_for_one(system, tmp_path, monkeypatch):
    windows = Windows()
    if system != "flock":
        monkeypatch.setattr(locks, "fcntl", None)
    if system == "msvcrt":
        monkeypatch.setattr(locks, "msvcrt", windows)
    monkeypatch.setattr(locks.time, "sleep", lambda seconds: None)
    assert not held(tmp_path / "lock")
    lock = Lock(tmp_path)
    assert (tmp_path / "lock").read_text().strip().isdigit()
    if system != "neither":
        assert held(tmp_path / "lock")
        with pytest.raises(InputError, match=r"being trained by another process \(\d+\)"):
            Lock(tmp_path)
    lock.release()
    windows.holder = None
    Lock(tmp_path).release()


def test_a_dead_process_holds_none(tmp_path):
    code = (
        "import os, pathlib, sys; from geoact.storage.locks import Lock; "
        "lock = Lock(pathlib.Path(sys.argv[1])); os._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False).returncode == 9
    assert not held(tmp_path / "lock")
    Lock(tmp_path).release()


def test_it_imports_where_there_is_no_flock(monkeypatch):
    import importlib

    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.setitem(sys.modules, "msvcrt", types.ModuleType("msvcrt"))
    try:
        assert importlib.reload(locks).fcntl is None
    finally:
        monkeypatch.undo()
        importlib.reload(locks)
