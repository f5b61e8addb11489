"""Typed data that checks itself: what fits a type, how a type is spelled, and nested changes."""

import dataclasses
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from geoact import checks
from geoact.errors import InputError


@dataclass(frozen=True)
class Inner:
    width: int = 3
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        checks.check(self)


@dataclass(frozen=True)
class Outer:
    rate: float = 0.5
    limit: float | None = None
    mode: Literal["one", "two", 3] = "one"
    pair: tuple[int, float] = (1, 2.0)
    inner: Inner = field(default_factory=Inner)
    on: bool = False
    anything: Any = None

    def __post_init__(self) -> None:
        checks.check(self)


@pytest.mark.parametrize(
    ("value", "hint", "expected"),
    [
        (1, float, True),
        (np.float32(1.5), float, True),
        (np.int64(1), float, True),
        (Fraction(1, 2), float, True),
        (True, float, False),
        (float("nan"), float, False),
        (float("-inf"), float, False),
        (1e30, float, False),
        (10**400, float, False),
        ("1", float, False),
        (1j, float, False),
        (np.int32(3), int, True),
        (3.0, int, False),
        (False, int, False),
        (2**63 - 1, int, True),
        (2**63, int, False),
        (-(10**400), int, False),
        (None, int | None, True),
        (None, int, False),
        ("one", Literal["one", 3], True),
        (3, Literal["one", 3], True),
        (np.int64(3), Literal["one", 3], True),
        (3.0, Literal["one", 3], False),
        (True, Literal["one", 1], False),
        ([1, 2], tuple[int, ...], True),
        ((), tuple[int, ...], True),
        ([1, "2"], tuple[int, ...], False),
        ("12", tuple[str, ...], False),
        ((1, 2.0), tuple[int, float], True),
        ((1,), tuple[int, float], False),
        (1, bool, False),
        (True, bool, True),
        (object(), Any, True),
        ({"a": 1}, dict[str, Any], True),
        ([], dict[str, Any], False),
    ],
)
def test_what_fits_a_type(value: Any, hint: Any, expected: bool):
    assert checks.fits(value, hint) is expected


@pytest.mark.parametrize(
    ("hint", "words"),
    [
        (int, "a whole number"),
        (float | None, "a finite number"),
        (bool, "true or false"),
        (str, "a text"),
        (Literal["a", 2], "one of a, 2"),
        (tuple[int, ...], "a list, each a whole number"),
        (int | str, "a whole number or a text"),
        (Inner, "Inner"),
    ],
)
def test_a_type_in_words(hint: Any, words: str):
    assert checks.spell(hint) == words


def test_a_checked_record_holds_plain_data():
    made = Outer(rate=np.float32(0.25), limit=np.float64(2.0), mode=np.int64(3), pair=[np.int64(4), 5])  # type: ignore[arg-type]
    assert made == Outer(0.25, 2.0, 3, (4, 5))
    assert [type(x) for x in (made.rate, made.limit, made.mode, made.pair, made.pair[0])] == [
        float,
        float,
        int,
        tuple,
        int,
    ]


def test_nested_changes():
    before = Outer()
    after = checks.changed(before, {"rate": 1, "inner": {"width": 7}, "mode": "two"}, "a test")
    assert after == Outer(rate=1.0, mode="two", inner=Inner(7)) and before == Outer()
    assert checks.changed(before, {"inner": Inner(9)}, "a test").inner.width == 9
    assert checks.changed(before, {}, "a test") == before
    for changes, sentence in (
        ({"rtae": 1}, "unknown setting of a test 'rtae': did you mean rate"),
        ({"inner": {"with": 1}}, "unknown setting of a test's inner 'with': did you mean width"),
        ({"inner": {"width": "1"}}, "width must be a whole number, got '1'"),
        ({"inner": 3}, "inner must be Inner, got '3'"),
        ({"mode": "three"}, "mode must be one of one, two, 3, got 'three'"),
        ({"on": 1}, "on must be true or false"),
    ):
        with pytest.raises(InputError) as caught:
            checks.changed(before, changes, "a test")
        assert sentence in str(caught.value)


def test_differences_by_dotted_names():
    assert checks.differences(Outer(), Outer()) == {}
    other = Outer(rate=0.25, inner=Inner(7, ("a",)))
    assert checks.differences(other, Outer()) == {"rate": 0.25, "inner.width": 7, "inner.names": ("a",)}


@given(
    st.builds(
        Outer,
        rate=st.floats(-1e29, 1e29),
        limit=st.none() | st.floats(-1e29, 1e29),
        mode=st.sampled_from(["one", "two", 3]),
        inner=st.builds(
            Inner, width=st.integers(-(2**62), 2**62), names=st.lists(st.text(max_size=3)).map(tuple)
        ),
        on=st.booleans(),
    )
)
def test_changing_by_all_differences_gives_the_other_record(record: Outer):
    changes: dict[str, Any] = {}
    for name, value in checks.differences(record, Outer()).items():
        outer, _, inner = name.partition(".")
        if inner:
            changes.setdefault(outer, {})[inner] = value
        else:
            changes[outer] = value
    assert checks.changed(Outer(), changes, "a test") == record
    assert checks.changed(Outer(), dataclasses.asdict(record), "a test") == record


def test_bounds_in_words():
    record = Outer(rate=-1.0, limit=None)
    checks.positive(record, "limit")  # not given, so not refused
    for check, sentence in (
        (checks.positive, "rate must be greater than 0, got -1.0"),
        (checks.not_negative, "rate must be 0 or more, got -1.0"),
        (checks.share, "rate must be in (0, 1], got -1.0"),
    ):
        with pytest.raises(InputError) as caught:
            check(record, "rate")
        assert str(caught.value) == sentence
    checks.not_negative(Outer(rate=0.0), "rate")
    checks.share(Outer(rate=1.0), "rate")
    with pytest.raises(InputError, match=r"known: a, b"):
        raise InputError(checks.unknown("letter", "zzz", ["b", "a"]))


def test_a_long_value_is_cut_in_the_message():
    with pytest.raises(InputError) as caught:
        Outer(mode="x" * 5000)  # type: ignore[arg-type]
    assert len(str(caught.value)) < 200
