"""Words become typed options, and complaints are one line whatever the terminal makes of them."""

import os
import pty
import subprocess
import sys
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import pytest
from tyro.conf import Positional, arg

from geoact.checks import DERIVED
from geoact.commands import _arguments
from geoact.errors import InputError


@dataclass(frozen=True)
class Inner:
    """A group."""

    wide: bool = False
    """Whether it is wide,
    or not."""
    area: int | None = field(default=None, metadata=DERIVED)
    """By how wide it is."""


@dataclass(frozen=True)
class Options:
    """Do something."""

    what: Positional[str]
    """What to do."""
    _: KW_ONLY
    count: int = 1
    """How often."""
    limit: float | None = None
    """How far."""
    mode: Literal["a", "b"] | None = None
    """Which way."""
    names: tuple[str, ...] | None = None
    """Whom to."""
    where: Annotated[Path, arg(aliases=("--at",))] = Path("here")
    """Where."""
    inner: Inner = Inner()
    """The group."""

    def __post_init__(self) -> None:
        if self.count < 0:
            raise InputError("count must be 0 or more")


def parse(*words: str) -> Options:
    return _arguments.parse(Options, "test", list(words))


def test_words_become_options():
    assert parse("it") == Options("it")
    words = ["it", "--count", "1e3", "--limit", "2", "--mode", "b", "--names", "x", "y", "--at", "there"]
    assert parse(*words, "--inner.wide") == Options(
        "it", count=1000, limit=2.0, mode="b", names=("x", "y"), where=Path("there"), inner=Inner(True)
    )
    assert parse("it", "--limit", "none", "--count=-0") == Options("it", count=0)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "missing: WHAT (see geoact test --help)"),
        (["it", "--count", "x"], "--count: expected a whole number, got 'x' (see geoact test --help)"),
        (["it", "--limit", "-inf"], "--limit: expected a finite number, got '-inf' (see geoact test --help)"),
        (["it", "--count", "-3"], "count must be 0 or more"),
        (["it", "--inner.wid"], "unknown option --inner.wid: did you mean --inner.wide?"),
    ],
)
def test_complaints(words, sentence):
    with pytest.raises(InputError) as caught:
        parse(*words)
    assert str(caught.value) == sentence


def test_help_is_one_paragraph_per_option_and_has_no_more_than_can_be_chosen(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    with pytest.raises(SystemExit):
        parse("--help")
    said = capsys.readouterr().out
    assert "Whether it is wide, or not. (default: False)" in said and "How far." in said
    assert "area" not in said
    with pytest.raises(InputError, match=r"unknown option --inner\.area"):
        parse("it", "--inner.area", "3")


def test_flags():
    assert _arguments.flags(Options) == {
        "--help": (),
        "--count": (),
        "--limit": (),
        "--mode": ("a", "b"),
        "--names": (),
        "--where": (),
        "--at": (),
        "--inner.wide": (),
    }
    assert "--inner.no-wide" in _arguments.flags(Options, pairs=True)


def test_value_of():
    assert _arguments.value_of(["--a", "1", "--a=2"], "--a") == "2"
    assert _arguments.value_of(["--ab", "1"], "--a") is None
    assert _arguments.value_of(["--a"], "--a") is None


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_one_line_on_a_terminal(encoding):
    """tyro draws a frame and colours by what standard output is: none of it is left."""
    main, terminal = pty.openpty()
    result = subprocess.run(
        [sys.executable, "-m", "geoact", "train", "Pendulum-v1", "--slack", "7"],
        stdout=terminal,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"TERM": "xterm-256color", "PYTHONIOENCODING": encoding},
    )
    os.close(terminal)
    os.close(main)
    assert result.returncode == 2
    assert result.stderr == (
        "geoact: invalid choice '7' for argument '--slack'. Expected one of ('auto', '0', '1', '2'). "
        "(see geoact train --help)\n"
    )
