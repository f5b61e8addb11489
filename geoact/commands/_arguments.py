"""From words on the command line to typed options, by tyro; complaints are one line each.

Beyond tyro's own rules: whole numbers may be written 1e6 or 1_000_000, infinity and NaN are no numbers, a number
that can be left open takes "none", and a flag that does not exist is answered with the nearest one that does.
"""

import ast
import contextlib
import dataclasses
import difflib
import functools
import inspect
import io
import math
import re
import textwrap
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from inspect import cleandoc
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, TypeVar

import tyro
from tyro.constructors import (
    ConstructorRegistry,
    PrimitiveConstructorSpec,
    PrimitiveTypeInfo,
    StructConstructorSpec,
    StructFieldSpec,
    StructTypeInfo,
)

from geoact.checks import choices
from geoact.errors import InputError

T = TypeVar("T")

Flags = dict[str, tuple[str, ...]]
"""Flags, with the values to choose from where they are few."""


@dataclass(frozen=True)
class Known:
    """Beside a text's type: the values that it may have, for shells to complete."""

    values: tuple[str, ...]


def whole_number(text: str) -> int:
    """An integer, also as 1_000_000 or 1e6."""
    with contextlib.suppress(ValueError):
        return int(text)
    with contextlib.suppress(ValueError, OverflowError):
        if float(text) == int(float(text)):
            return int(float(text))
    raise ValueError(f"expected a whole number, got {text!r}")


def number(text: str) -> float:
    """A finite number."""
    with contextlib.suppress(ValueError):
        if math.isfinite(value := float(text)):
            return value
    raise ValueError(f"expected a finite number, got {text!r}")


_PRIMITIVES: dict[type, tuple[str, Callable[[str], Any]]] = {
    int: ("INT", whole_number),
    float: ("FLOAT", number),
    str: ("STR", str),
    Path: ("PATH", Path),
}


def _registry() -> ConstructorRegistry:
    registry = ConstructorRegistry()

    @registry.primitive_rule
    def rule(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec | None:
        kind, optional = _without_none(info.type)
        if optional and typing.get_origin(kind) is Literal:
            return _choice(typing.get_args(kind))
        if optional and kind == tuple[str, ...]:
            return _WORDS
        if kind not in _PRIMITIVES:
            return None
        metavar, convert = _PRIMITIVES[kind]

        def make(words: list[str]) -> Any:
            open_again = optional and kind in (int, float) and words[0].lower() == "none"
            return None if open_again else convert(words[0])

        return PrimitiveConstructorSpec(
            nargs=1,
            metavar=metavar,
            instance_from_str=make,
            is_instance=lambda x: (
                (optional and x is None) or isinstance(x, (int, float) if kind is float else kind)
            ),
            str_from_instance=lambda x: ["none" if x is None else str(x)],
        )

    registry.struct_rule(_options)
    return registry


def _options(info: StructTypeInfo) -> StructConstructorSpec | None:
    """A dataclass: an option for each field that can be chosen, with its docstring as one paragraph."""
    if not dataclasses.is_dataclass(info.type):
        return None
    hints = typing.get_type_hints(info.type, include_extras=True)
    return StructConstructorSpec(
        info.type,
        tuple(
            StructFieldSpec(
                field.name,
                hints[field.name],
                _default(field, info.default),
                functools.partial(_about, info.type, field.name),
            )
            for field in choices(info.type)
        ),
    )


def _default(field: "dataclasses.Field[Any]", record: Any) -> Any:
    """What a field has in the record that the options start from; without one, what it is made with."""
    if dataclasses.is_dataclass(record):
        return getattr(record, field.name)
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return tyro.MISSING if field.default is dataclasses.MISSING else field.default


def _about(kind: type, name: str) -> str | None:
    """The docstring of a dataclass's field, its own or a parent's."""
    return next((found[name] for found in map(_docstrings, kind.__mro__) if name in found), None)


@functools.cache
def _docstrings(kind: type) -> dict[str, str]:
    """The docstrings of the fields that a dataclass itself declares, each as one line."""
    if not dataclasses.is_dataclass(kind):
        return {}
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(definition, ast.ClassDef)
    return {
        field.target.id: " ".join(text.split())
        for field, below in pairwise(definition.body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
        if isinstance(text := below.value.value, str)
    }


def _choice(values: tuple[Any, ...]) -> PrimitiveConstructorSpec[Any]:
    """One of a few values, or nothing."""
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar=f"{{{','.join(map(str, values))}}}",
        instance_from_str=lambda words: next(value for value in values if str(value) == words[0]),
        is_instance=lambda x: x is None or x in values,
        str_from_instance=lambda x: ["none" if x is None else str(x)],
        choices=tuple(map(str, values)),
    )


def _words(words: list[str]) -> tuple[str, ...]:
    if not words:  # left empty by mistake it must not mean everything
        raise ValueError("expected at least one value")
    return tuple(words)


_WORDS = PrimitiveConstructorSpec[tuple[str, ...] | None](
    nargs="*",
    metavar="STR ...",
    instance_from_str=_words,
    is_instance=lambda x: x is None or isinstance(x, tuple),
    str_from_instance=lambda x: ["none"] if x is None else list(x),
)


def _without_none(hint: Any) -> tuple[Any, bool]:
    """`int | None` -> (int, True); anything else as it is."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        others = [member for member in typing.get_args(hint) if member is not type(None)]
        if len(others) == 1 and len(others) < len(typing.get_args(hint)):
            return others[0], True
    return hint, False


def parse(kind: type[T], command: str, argv: list[str]) -> T:
    """The options of a command."""
    refuse_unknown(argv, flags(kind), command)
    return read(kind, command, argv, cleandoc(kind.__doc__ or ""), pairs=False)


def read(target: Callable[..., T], command: str, argv: list[str], about: str, pairs: bool) -> T:
    """What a class or function makes of the arguments, or an InputError; `--help` raises SystemExit(0).

    `pairs`: whether what can be switched on can be switched off, too (--wandb, --no-wandb).
    """
    said = io.StringIO()
    markers = (tyro.conf.PositionalMetavarFromFieldName,)
    try:
        with contextlib.redirect_stderr(said):
            return tyro.cli(
                target,
                prog=f"geoact {command}",
                description=about,
                args=argv,
                registry=_registry(),
                config=markers if pairs else (*markers, tyro.conf.FlagCreatePairsOff),
            )
    except SystemExit as ending:
        if not ending.code:
            raise
        cause: BaseException | None = ending.__context__
        while cause is not None and not isinstance(cause, InputError):
            cause = cause.__context__
        raise cause or InputError(f"{one_line(said.getvalue())} (see geoact {command} --help)") from None


def one_line(complaint: str) -> str:
    """The first paragraph of tyro's complaint, without its title, frame and colours, which depend on the terminal."""
    rows = re.sub(r"\x1b\[[0-9;]*m", "", complaint).splitlines()
    title = 1 if rows and rows[0].startswith("╭") else 2  # in the frame, or above a rule
    rows = [row.strip("│").rstrip() for row in rows[title:]]
    end = next((i for i, row in enumerate(rows) if set(row.strip()) <= set("─-╰╯")), len(rows))
    words = [row.split() for row in rows[:end]]
    if words and words[0][:2] == ["Missing", "from"]:
        depths = [len(row) - len(row.lstrip()) for row in rows[:end]]
        names = [word[0] for word, depth in zip(words, depths) if depth == depths[0] + 4]
        return f"missing: {' '.join(names)}"
    text = " ".join(word for row in words for word in row)
    return text.removeprefix("Error parsing ") or "the arguments cannot be read"


def refuse_unknown(argv: list[str], known: Flags, command: str) -> None:
    """Name the first flag that does not exist, and the nearest one that does."""
    for flag in given_flags(argv):
        if flag not in known:
            near = difflib.get_close_matches(flag, known, n=1)
            hint = (
                f"did you mean {near[0]}?" if near else f"geoact {command} --help shows those that there are"
            )
            raise InputError(f"unknown option {flag}: {hint}")


def given_flags(argv: list[str]) -> list[str]:
    """The flags among the words, as they are spelt in the help."""
    words = argv[: argv.index("--")] if "--" in argv else argv
    return [word.partition("=")[0].replace("_", "-") for word in words if word.startswith("--")]


def value_of(argv: list[str], flag: str) -> str | None:
    """The value given for one flag, where it must be known before the others can be read."""
    value = None
    for word, following in zip(argv, [*argv[1:], None]):
        if word == flag:
            value = following
        elif word.startswith(f"{flag}="):
            value = word.partition("=")[2]
    return value


def flags(kind: type, prefix: str = "", pairs: bool = False) -> Flags:
    """The flags that tyro makes of a dataclass; those of a dataclass in it have its name in front.

    `pairs`: as for `read`.
    """
    found: Flags = {} if prefix else {"--help": ()}
    hints = typing.get_type_hints(kind, include_extras=True)
    for field in choices(kind):
        notes = getattr(hints[field.name], "__metadata__", ())
        hint = hints[field.name].__origin__ if notes else hints[field.name]
        if tyro.conf.Positional in notes or tyro.conf.Suppress in notes:
            continue
        name = field.name.replace("_", "-")
        if dataclasses.is_dataclass(hint):
            found |= flags(typing.cast(type, hint), f"{prefix}{name}.", pairs)
            continue
        values: tuple[str, ...] = next((note.values for note in notes if isinstance(note, Known)), ())
        kind_of_value, _ = _without_none(hint)
        if typing.get_origin(kind_of_value) is Literal:
            values = tuple(map(str, typing.get_args(kind_of_value)))
        for flag in (
            f"--{prefix}{name}",
            *(alias for n in notes for alias in getattr(n, "aliases", None) or ()),
        ):
            found[flag] = values
        if hint is bool and pairs:
            found[f"--{prefix}no-{name}"] = ()
    return found
