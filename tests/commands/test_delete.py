"""`geoact delete`: all or none, asked for first."""

import shutil

from geoact.cli import main
from geoact.commands import _console
from geoact.storage.runs import Run


def test_delete(folder, capsys):
    assert main(["delete", "a", str(folder / "b"), "--runs-dir", str(folder), "--yes"]) == 0
    assert capsys.readouterr().out.splitlines() == [f"deleted: {folder / name}" for name in "ab"]
    assert sorted(path.name for path in folder.iterdir()) == ["c", "d", "not-a-run"]


def test_nothing_is_deleted_where_one_cannot_be(folder, capsys):
    assert main(["delete", str(folder / "a"), str(folder / "not-a-run"), "--yes"]) == 2
    assert "is not a run" in capsys.readouterr().err
    lock = Run(folder / "b").lock()
    try:
        assert main(["delete", str(folder / "a"), str(folder / "b"), "--yes"]) == 2
    finally:
        lock.release()
    assert "is being trained" in capsys.readouterr().err
    assert {"a", "b", "c", "d"} <= {path.name for path in folder.iterdir()}


def test_delete_asks(folder, capsys, monkeypatch):
    monkeypatch.setattr("geoact.commands.delete.on_terminal", lambda: False)
    assert main(["delete", str(folder / "a")]) == 2
    assert "add --yes" in capsys.readouterr().err
    monkeypatch.setattr("geoact.commands.delete.on_terminal", lambda: True)
    monkeypatch.setattr(_console, "on_terminal", lambda: True)
    asked = []
    monkeypatch.setattr("builtins.input", lambda question: asked.append(question) or "n")
    assert main(["delete", str(folder / "a")]) == 0
    assert str(folder / "a") in asked[0] and (folder / "a").exists()
    monkeypatch.setattr("builtins.input", lambda _: "y")
    assert main(["delete", str(folder / "a")]) == 0
    assert not (folder / "a").exists()


def test_of_a_link_only_the_link_goes(folder, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    shutil.move(folder / "a", elsewhere)
    (folder / "a").symlink_to(elsewhere)
    assert main(["delete", str(folder / "a"), "--yes"]) == 0
    assert not (folder / "a").is_symlink() and (elsewhere / "run.json").exists()
