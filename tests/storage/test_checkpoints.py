"""Checkpoints there and back; what damage and kills do to them is tested with reliability."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest

from geoact.errors import FileFormatError, InputError, TrainingFailed
from geoact.storage import checkpoints
from geoact.storage.checkpoints import Checkpointer, Snapshot
from geoact.training.replay import Replay


class State(NamedTuple):
    actor: dict[str, Any]
    updates: Any


STATE = State({"a.weight": jnp.arange(6.0).reshape(2, 3), "a.bias": jnp.ones(2)}, jnp.asarray(3, jnp.int32))


def test_a_state_is_named_arrays_and_back():
    arrays = checkpoints.flatten(STATE)
    assert len(arrays) == 3 and "updates" in arrays
    zero = State({name: jnp.zeros_like(x) for name, x in STATE.actor.items()}, jnp.asarray(0, jnp.int32))
    again = checkpoints.unflatten(zero, arrays)
    np.testing.assert_array_equal(again.actor["a.weight"], STATE.actor["a.weight"])
    assert again.updates.dtype == jnp.int32 and int(again.updates) == 3


def test_arrays_of_another_state_are_refused():
    arrays = checkpoints.flatten(STATE)
    for wrong in ({}, arrays | {"updates": np.zeros(2, np.int32)}):
        with pytest.raises((FileFormatError, InputError)):
            checkpoints.unflatten(STATE, wrong)


def test_segments_are_of_a_size_that_is_worth_a_file():
    assert [checkpoints.segment_rows(n) for n in (100, 1_000_000, 10_000_000)] == [256, 15_625, 65_536]


def filled(rows: int) -> Replay:
    replay = Replay(600, 2, 1)
    for i in range(rows):
        one = np.full((1, 2), i, np.float32)
        replay.add(one, one[:, :1], one[:, 0], one[:, 0], one)
    return replay


def test_the_last_two_are_kept_and_the_newest_is_read(tmp_path):
    writer, replay = Checkpointer(tmp_path), filled(900)  # around the ring once
    for step in (10, 20, 30):
        writer.write(
            step, Snapshot({"x": np.full(3, step, np.float32)}, {"replay_rows": replay.added}), replay
        )
    assert [int(path.name.removeprefix("step_")) for path in checkpoints.checkpoint_folders(tmp_path)][
        -2:
    ] in (
        [20, 30],
        [30, 20],
    )
    again = Replay(600, 2, 1)
    loaded = checkpoints.load_newest(tmp_path, again, print)
    assert loaded is not None and loaded.snapshot.arrays["x"][0] == 30
    np.testing.assert_array_equal(again.numbered(300, 900), replay.numbered(300, 900))
    checkpoints.delete(tmp_path)
    assert checkpoints.checkpoint_folders(tmp_path) == []


def test_what_is_not_finite_is_not_kept(tmp_path):
    with pytest.raises(TrainingFailed, match="x"):
        checkpoints.require_finite({"x": np.array([1.0, np.nan])})
    checkpoints.require_finite({"x": np.array([1.0]), "count": np.array([3])})
