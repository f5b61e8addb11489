"""The ring against a plain list."""

import numpy as np
import pytest

from geoact.critics import split_rows
from geoact.errors import FileFormatError, InputError
from geoact.training.replay import Replay, available_memory
from geoact.transitions import row_width


def transitions(rng: np.random.Generator, count: int) -> tuple[np.ndarray, ...]:
    return (
        rng.standard_normal((count, 3)).astype(np.float32),
        rng.standard_normal((count, 2)).astype(np.float32),
        rng.standard_normal(count).astype(np.float32),
        rng.integers(0, 2, count).astype(bool),
        rng.standard_normal((count, 3)).astype(np.float32),
    )


def test_ring_keeps_the_last_transitions_in_order():
    rng = np.random.default_rng(0)
    replay = Replay(10, 3, 2)
    expected: list[np.ndarray] = []
    for _ in range(7):
        parts = transitions(rng, 4)
        replay.add(*parts)
        for i in range(4):
            expected.append(np.concatenate([np.atleast_1d(part[i]) for part in parts]).astype(np.float32))
        kept = expected[-10:]
        assert len(replay) == len(kept)
        start = replay.added % 10 if replay.added > 10 else 0
        in_order = np.roll(replay.rows, -start, axis=0)[: len(kept)]
        np.testing.assert_array_equal(in_order, np.stack(kept))


def test_samples_are_stored_rows_and_all_of_them_come_up():
    rng = np.random.default_rng(0)
    replay = Replay(50, 3, 2)
    replay.add(*transitions(rng, 20))
    out = np.empty((4, 100, row_width(3, 2)), np.float32)
    assert replay.sample(rng, out) is out
    rows = {row.tobytes() for row in replay.rows[:20]}
    drawn = {row.tobytes() for row in out.reshape(-1, out.shape[-1])}
    assert drawn == rows


@pytest.mark.parametrize("added", [400, 1000])  # a part of the ring, and twice around with a rest
def test_with_recency_the_young_come_up_more_often_by_their_law(added: int):
    """The age a as a share of what is there has the distribution function a^(1/recency)."""
    rng = np.random.default_rng(0)
    replay = Replay(420, 3, 2, recency=2.0)
    for first in range(0, added, 20):
        numbered = np.repeat(np.arange(first, first + 20, dtype=np.float32)[:, None], 3, axis=1)
        replay.add(numbered, numbered[:, :2], numbered[:, 0], numbered[:, 0], numbered)
    out = replay.sample(rng, np.empty((20, 1000, row_width(3, 2)), np.float32))
    age = (added - 1 - out[..., 0].ravel()) / len(replay)
    assert age.min() >= 0.0 and age.max() < 1.0
    for share in (0.01, 0.25, 0.5, 0.9):
        assert abs(np.mean(age < share) - np.sqrt(share)) < 0.02
    assert len(set(out[..., 0].ravel())) > 0.99 * len(replay)  # nothing is forgotten


def test_rows_split_into_what_was_added():
    rng = np.random.default_rng(0)
    replay = Replay(5, 3, 2)
    parts = transitions(rng, 5)
    replay.add(*parts)
    batch = split_rows(replay.rows, 3, 2)  # pyright: ignore[reportArgumentType]
    for got, expected in zip(batch, parts):
        np.testing.assert_array_equal(np.asarray(got), expected.astype(np.float32))


def test_humanoid_fits_in_the_memory_promised():
    assert 10**6 * row_width(348, 17) * 4 < 3.2e9


def test_a_buffer_that_cannot_fit_is_refused_with_the_sizes():
    with pytest.raises(InputError, match=r"needs 2\.9 GB, and 1\.0 GB of memory is free: use --buffer-size"):
        Replay(10**6, 348, 17, memory=10**9)


def test_rows_are_numbered_over_the_whole_run():
    rng = np.random.default_rng(0)
    replay, everything = Replay(10, 3, 2), []
    for _ in range(6):
        parts = transitions(rng, 3)
        replay.add(*parts)
        everything += [
            np.concatenate([np.atleast_1d(part[i]) for part in parts]).astype(np.float32) for i in range(3)
        ]
        assert replay.oldest == max(0, len(everything) - 10) and replay.added == len(everything)
        for first, stop in (
            (replay.oldest, replay.added),
            (replay.added - 2, replay.added),
            (replay.oldest,) * 2,
        ):
            rows = replay.numbered(first, stop)
            assert len(rows) == stop - first
            np.testing.assert_array_equal(rows.reshape(-1, 10), np.reshape(everything[first:stop], (-1, 10)))
    again = Replay(10, 3, 2)
    again.added = replay.added
    again.put(4, np.stack(everything[4:]))  # the first four of these are too old by now
    np.testing.assert_array_equal(again.rows, replay.rows)


def test_nothing_added_is_nothing_changed():
    """A vector step closes no transition while n-step ones are open."""
    replay = Replay(5, 3, 2)
    parts = transitions(np.random.default_rng(0), 3)
    replay.add(*parts)
    before = replay.rows[:3].copy()
    replay.add(*(part[:0] for part in parts))
    assert replay.added == 3
    np.testing.assert_array_equal(replay.rows[:3], before)


def test_rows_of_another_environment_are_refused():
    with pytest.raises(
        FileFormatError, match="replay rows of 7 columns do not fit this environment, expected 10"
    ):
        Replay(5, 3, 2).put(0, np.zeros((1, 7), np.float32))


def test_memory_is_known_or_plenty():
    assert available_memory() > 1e6
