"""What an on-policy algorithm learns from, filled step by step."""

import numpy as np

from geoact.training.rollout import RolloutBuffer


def step(number: int) -> tuple[np.ndarray, ...]:
    """A vector step whose every number says which one it is."""
    return (
        np.full((2, 3), number),
        np.full((2, 1), 10 * number),
        np.array([number, -number]),
        np.array([True, False]),
        np.array([False, number % 2 == 0]),
        np.full((2, 3), number + 0.5),
    )


def test_steps_lie_in_order_and_a_full_buffer_starts_anew():
    buffer = RolloutBuffer(3, 2, 3, 1)
    for number in range(1, 8):
        buffer.add(*step(number))
        filled = (number - 1) % 3 + 1
        assert buffer.filled == filled and buffer.full == (filled == 3)
        for row in range(filled):
            expected = step(number - filled + 1 + row)
            for array, value in zip(buffer.arrays.values(), expected, strict=True):
                np.testing.assert_array_equal(array[row], value)
    assert all(array.dtype == np.float32 for array in buffer.arrays.values())
    assert list(buffer.arrays) == ["obs", "action", "reward", "terminated", "truncated", "next_obs"]


def test_a_restored_buffer_goes_on_as_the_first_would():
    first, second = RolloutBuffer(4, 2, 3, 1), RolloutBuffer(4, 2, 3, 1)
    for number in (1, 2, 3):
        first.add(*step(number))
    second.restore({name: array[: first.filled].copy() for name, array in first.arrays.items()})
    for buffer in (first, second):
        buffer.add(*step(4))
    assert second.full
    for name, array in first.arrays.items():
        np.testing.assert_array_equal(second.arrays[name], array)


def test_an_empty_buffer_can_be_restored():
    buffer = RolloutBuffer(4, 2, 3, 1)
    buffer.add(*step(1))
    buffer.restore({name: array[:0] for name, array in RolloutBuffer(4, 2, 3, 1).arrays.items()})
    assert buffer.filled == 0 and not buffer.full
