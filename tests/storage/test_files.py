"""Folders that are replaced whole, what lies beside keeps lying there, and readers that see one state or the other."""

import os
import threading
from pathlib import Path

import pytest

from geoact.errors import FileFormatError
from geoact.storage import files


def fill(path: Path, text: str, keep: bool = False) -> None:
    with files.new_folder(path, keep=keep) as temporary:
        for name in ("a", "b"):
            (temporary / name).write_text(text)


def contents(folder: Path) -> dict[str, str]:
    return {str(p.relative_to(folder)): p.read_text() for p in folder.rglob("*") if p.is_file()}


@pytest.fixture(params=["exchange", "two renames"])
def _system(request, monkeypatch) -> None:
    """With and without the exchange of two names."""
    if request.param != "exchange":
        monkeypatch.setattr(files, "exchange", lambda one, other: False)


@pytest.mark.usefixtures("_system")
def test_trust_07_what_lies_beside_is_kept(tmp_path):
    path = tmp_path / "policy"
    fill(path, "one")
    (path / "play.gif").write_text("film")
    (path / "more").mkdir()
    (path / "more" / "notes").write_text("mine")
    (path / "gone").symlink_to(tmp_path / "nowhere")
    fill(path, "two", keep=True)
    fill(path, "three", keep=True)
    assert contents(path) == {"a": "three", "b": "three", "play.gif": "film", "more/notes": "mine"}
    assert (path / "gone").is_symlink()
    assert [p.name for p in tmp_path.iterdir()] == ["policy"]


@pytest.mark.usefixtures("_system")
def test_trust_07_also_what_cannot_be_linked(tmp_path, monkeypatch):
    def link(*args: object, **kwargs: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    path = tmp_path / "policy"
    fill(path, "one")
    (path / "play.gif").write_text("film")
    monkeypatch.setattr(os, "link", link)
    fill(path, "two", keep=True)
    assert contents(path) == {"a": "two", "b": "two", "play.gif": "film"}


@pytest.mark.usefixtures("_system")
@pytest.mark.parametrize("what", ["a file", "a link", "a broken link"])
def test_trust_07_something_else_in_its_place_does_not_stop_it(what, tmp_path):
    path = tmp_path / "policy"
    if what == "a file":
        path.write_text("not a folder")
    else:
        path.symlink_to(tmp_path / "elsewhere")
        if what == "a link":
            (tmp_path / "elsewhere").mkdir()
    for text in ("one", "two"):
        fill(path, text, keep=True)
        assert contents(path) == {"a": text, "b": text}


@pytest.mark.usefixtures("_system")
def test_a_block_that_fails_leaves_the_old_folder(tmp_path):
    path = tmp_path / "policy"
    fill(path, "one")
    with pytest.raises(RuntimeError), files.new_folder(path) as temporary:  # noqa: PT012
        (temporary / "a").write_text("two")
        raise RuntimeError
    assert contents(path) == {"a": "one", "b": "one"}
    assert [p.name for p in tmp_path.iterdir()] == ["policy"]


def read_pair(path: Path) -> str:
    one, other = (path / "a").read_text(), (path / "b").read_text()
    if one != other:
        raise FileFormatError(f"{one} is not {other}")
    return one


@pytest.mark.usefixtures("_system")
def test_trust_15_readers_see_one_state_or_the_other(tmp_path):
    path = tmp_path / "policy"
    fill(path, "0")
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            fill(path, str(number), keep=True)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        seen = [files.read_consistently(lambda: read_pair(path), path / "a") for _ in range(500)]
    finally:
        stop.set()
        writer.join()
    numbers = [int(one) for one in seen]
    assert numbers == sorted(numbers) and numbers[-1] > 0


def test_trust_15_true_damage_is_told_at_once(tmp_path):
    path = tmp_path / "policy"
    fill(path, "one")
    (path / "b").write_text("other")
    tries = []

    def read() -> str:
        tries.append(1)
        return read_pair(path)

    with pytest.raises(FileFormatError, match="one is not other"):
        files.read_consistently(read, path / "a")
    assert len(tries) == 1
    with pytest.raises(FileNotFoundError):
        files.read_consistently(lambda: read_pair(tmp_path / "none"), tmp_path / "none" / "a")


def test_trust_15_files_that_change_for_ever_end_in_the_error(tmp_path):
    path = tmp_path / "a"
    path.write_text("")

    def read() -> None:
        path.write_text(path.read_text() + "x")
        raise FileFormatError("torn")

    with pytest.raises(FileFormatError, match="torn"):
        files.read_consistently(read, path, attempts=5)
    assert len(path.read_text()) == 5


def test_folders_are_synced_where_that_exists(tmp_path, monkeypatch):
    def fsync(descriptor: int) -> None:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(os, "fsync", fsync)
    files.sync_folder(tmp_path)
    monkeypatch.setattr(os, "name", "nt")
    files.sync_folder(tmp_path / "which is not even there")
