"""The ring against a plain list."""

import numpy as np
import pytest

from geoact.critics import split_rows
from geoact.errors import InputError
from geoact.replay import Replay, row_width


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
