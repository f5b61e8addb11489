"""Typed data that checks itself: each value against its declared type, when a configuration is made.

The same check serves every door: Python, the command line, a sweep's TOML and a file that is read back. NaN and
infinity are no numbers here: nothing that can be chosen has a use for them.
"""

import dataclasses
import difflib
import functools
import numbers
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal, TypeVar

from geoact.errors import InputError

T = TypeVar("T")

_LARGEST = 1e30
"""Beyond it a number cannot be used in float32."""
_LARGEST_WHOLE = 2**63
"""Beyond it nothing can be counted."""


DERIVED = {"derived": True}
"""Metadata of a field that follows from others: part of what a run writes down, and nothing to choose."""


def choices(kind: Any) -> list[dataclasses.Field[Any]]:
    """The fields of a dataclass (or of a record of one) that a user may choose."""
    return [field for field in dataclasses.fields(kind) if not field.metadata.get("derived")]


@functools.cache
def hints(kind: type) -> dict[str, Any]:
    """The declared types of a dataclass's fields."""
    declared = typing.get_type_hints(kind)
    return {field.name: declared[field.name] for field in dataclasses.fields(kind)}


def fits(value: Any, hint: Any) -> bool:
    """Whether a plain value is one of the type's (whole numbers are numbers too)."""
    if hint is Any:
        return True
    origin, members = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        value = plain(value, None)
        return any(type(value) is type(member) and value == member for member in members)
    if origin in (typing.Union, types.UnionType):
        return any(fits(value, member) for member in members)
    if origin is tuple:
        if not isinstance(value, tuple | list):
            return False
        inner = members[:1] * len(value) if members[1:] == (Ellipsis,) else members
        return len(inner) == len(value) and all(map(fits, value, inner))
    if isinstance(value, bool):
        return hint is bool
    if hint is float:
        return isinstance(value, numbers.Real) and bool(-_LARGEST < value < _LARGEST)  # pyright: ignore[reportOperatorIssue]
    if hint is int:
        return isinstance(value, numbers.Integral) and abs(int(value)) < _LARGEST_WHOLE
    return value is None if hint is type(None) else isinstance(value, origin or hint)


def spell(hint: Any) -> str:
    """A type in words."""
    origin, members = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return "one of " + ", ".join(map(str, members))
    if origin in (typing.Union, types.UnionType):
        return " or ".join(spell(member) for member in members if member is not type(None))
    if origin is tuple:
        return f"a list, each {spell(members[0])}"
    words = {int: "a whole number", float: "a finite number", bool: "true or false", str: "a text"}
    return words.get(hint) or getattr(hint, "__name__", str(hint))


def plain(value: Any, hint: Any) -> Any:
    """The value as plain Python data of its type: NumPy's numbers become Python's, lists become tuples."""
    if isinstance(value, bool):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    if isinstance(value, list | tuple) and hint is not list:
        return tuple(plain(item, None) for item in value)
    return value


def check(record: Any) -> None:
    """Hold every field of a frozen dataclass to its declared type. Call from `__post_init__`."""
    for name, hint in hints(type(record)).items():
        value = getattr(record, name)
        if not fits(value, hint):
            raise InputError(f"{flag(name)} must be {spell(hint)}, got {str(value)[:80]!r}")
        object.__setattr__(record, name, plain(value, hint))


def flag(name: str) -> str:
    """A field's name as users type it."""
    return name.replace("_", "-")


def require(condition: bool, message: str) -> None:
    """Refuse input in a sentence that says what was expected."""
    if not condition:
        raise InputError(message)


def positive(record: object, *names: str) -> None:
    """Refuse fields that are given and not greater than 0."""
    for name in names:
        value = getattr(record, name)
        require(value is None or value > 0, f"{flag(name)} must be greater than 0, got {value}")


def not_negative(record: object, *names: str) -> None:
    """Refuse fields that are given and less than 0."""
    for name in names:
        value = getattr(record, name)
        require(value is None or value >= 0, f"{flag(name)} must be 0 or more, got {value}")


def share(record: object, *names: str) -> None:
    """Refuse fields that are not in (0, 1]."""
    for name in names:
        value = getattr(record, name)
        require(0 < value <= 1, f"{flag(name)} must be in (0, 1], got {value}")


def changed(record: T, changes: Mapping[str, Any], of: str) -> T:
    """The record with some fields changed, nested records by nested mappings; what does not fit is refused.

    `of`: whose settings these are, for the message.
    """
    declared = hints(type(record))
    values: dict[str, Any] = {}
    for name, value in changes.items():
        if name not in declared:
            raise InputError(unknown(f"setting of {of}", name, list(declared)))
        before = getattr(record, name)
        if dataclasses.is_dataclass(before) and isinstance(value, Mapping):
            value = changed(before, value, f"{of}'s {name}")
        elif not fits(value, declared[name]):
            raise InputError(f"{flag(name)} must be {spell(declared[name])}, got {str(value)[:80]!r}")
        values[name] = value
    return dataclasses.replace(record, **values)  # type: ignore[type-var]


def differences(record: Any, usual: Any) -> dict[str, Any]:
    """The choices that differ from another record of the same type, nested ones by dotted names."""
    found: dict[str, Any] = {}
    for name in (field.name for field in choices(record)):
        value, other = getattr(record, name), getattr(usual, name)
        if dataclasses.is_dataclass(value) and type(value) is type(other):
            found |= {f"{name}.{inner}": v for inner, v in differences(value, other).items()}
        elif value != other:
            found[name] = value
    return found


def unknown(kind: str, given: str, known: list[str]) -> str:
    """One sentence for a name that does not exist, with the nearest ones that do."""
    near = difflib.get_close_matches(given, known, n=3, cutoff=0.4)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(sorted(known)[:12])}"
    return f"unknown {kind} {given[:80]!r}: {hint}"
