"""Printing and asking, where nobody may be listening."""

import io
import os
import sys

import pytest

from geoact.commands import _console


class Gone(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError

    def flush(self) -> None:
        raise BrokenPipeError

    def fileno(self) -> int:
        raise OSError("it has none")


def test_work_goes_on_when_the_reader_has_left(monkeypatch):
    gone = Gone()
    monkeypatch.setattr(sys, "stdout", gone)
    with _console.unbreakable():
        print("nobody reads this", flush=True)
        assert sys.stdout.write("nor this") == 8
    assert sys.stdout is gone
    with pytest.raises(BrokenPipeError):
        print("outside it is an error again")


def test_a_reader_that_is_there_reads_everything(monkeypatch):
    there = io.StringIO()
    monkeypatch.setattr(sys, "stdout", there)
    with _console.unbreakable():
        print("said")
        assert sys.stdout.getvalue() == "said\n"  # type: ignore[attr-defined]  # what it has, it offers


def test_silence_sends_the_rest_nowhere(tmp_path, monkeypatch):
    with open(tmp_path / "out", "w") as file:
        monkeypatch.setattr(sys, "stdout", file)
        print("before", flush=True)
        _console.silence()
        os.write(file.fileno(), b"after")
    assert (tmp_path / "out").read_text() == "before\n"


@pytest.mark.parametrize(("answer", "expected"), [("y", True), (" YES ", True), ("n", False), ("", False)])
def test_a_question_is_asked_on_a_terminal(answer, expected, monkeypatch):
    monkeypatch.setattr(_console, "on_terminal", lambda: True)
    monkeypatch.setattr("builtins.input", lambda question: answer)
    assert _console.agrees("really?") is expected


def test_where_nobody_is_there_the_answer_is_no(monkeypatch):
    monkeypatch.setattr(_console, "on_terminal", lambda: False)
    monkeypatch.setattr("builtins.input", lambda question: pytest.fail("nobody can answer"))
    assert _console.agrees("really?") is False
