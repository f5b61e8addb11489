"""Running statistics, against NumPy over everything at once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from geoact.training.normalization import CLIP, Normalizer, RunningMoments


def test_moments_of_batches_are_those_of_everything():
    rng = np.random.default_rng(0)
    data = 50.0 + 3.0 * rng.standard_normal((40, 8, 5))
    moments = RunningMoments((5,))
    for batch in data:
        moments.update(batch)
    flat = data.reshape(-1, 5)
    np.testing.assert_allclose(moments.mean, flat.mean(axis=0), rtol=1e-4)
    np.testing.assert_allclose(moments.var, flat.var(axis=0), rtol=1e-2)


def test_rewards_are_scaled_by_the_deviation_of_their_discounted_sum():
    rng = np.random.default_rng(0)
    normalizer = Normalizer(4, 2, 0.9, use_obs=True, use_reward=True)
    sums, seen = np.zeros(4), []
    for step in range(300):
        reward = rng.standard_normal(4).astype(np.float32) * 30
        ended = rng.random(4) < 0.1
        scaled = normalizer.reward(reward, ended)
        sums = sums * 0.9 + reward
        seen.append(sums)
        sums = np.where(ended, 0.0, sums)
        if step > 10:
            np.testing.assert_allclose(scaled, reward / np.std(seen), rtol=1e-3)
    assert np.abs(normalizer.reward(np.full(4, 1e6, np.float32), np.zeros(4, bool))).max() <= 10.0


def test_what_is_switched_off_is_left_alone():
    normalizer = Normalizer(2, 3, 0.9, use_obs=False, use_reward=False)
    obs, reward = np.arange(6, dtype=np.float32).reshape(2, 3), np.array([3.0, 4.0], np.float32)
    normalizer.see(obs)
    assert normalizer.obs(obs) is obs and normalizer.reward(reward, np.zeros(2, bool)) is reward
    assert normalizer.tensors() == {}


def test_a_restored_normalizer_goes_on_as_the_first_would():
    rng = np.random.default_rng(0)
    first = Normalizer(2, 3, 0.9, True, True)
    for _ in range(5):
        first.see(rng.standard_normal((2, 3)))
        first.reward(rng.standard_normal(2), np.array([False, True]))
    second = Normalizer(2, 3, 0.9, True, True)
    second.restore({name: array.copy() for name, array in first.arrays().items()})
    obs, reward = rng.standard_normal((2, 3)), rng.standard_normal(2)
    for normalizer in (first, second):
        normalizer.see(obs)
    np.testing.assert_array_equal(first.obs(obs), second.obs(obs))
    ended = np.zeros(2, bool)
    np.testing.assert_array_equal(first.reward(reward, ended), second.reward(reward, ended))


def test_a_batch_is_normalised_as_the_policy_does_it():
    rng = np.random.default_rng(0)
    normalizer = Normalizer(4, 3, 0.9, True, False)
    for _ in range(20):
        normalizer.see((5.0 + rng.standard_normal((4, 3)) * [1.0, 10.0, 0.0]).astype(np.float32))
    tensors = normalizer.tensors()
    obs = (5.0 + rng.standard_normal((2, 6, 3)) * 30.0).astype(np.float32)
    expected = np.clip((obs - tensors["obs_mean"]) / tensors["obs_std"], -10.0, 10.0)
    batch = obs.copy()
    normalizer.normalize_in_place(batch)
    np.testing.assert_array_equal(batch, expected)
    np.testing.assert_allclose(normalizer.obs(obs[0]), expected[0], rtol=1e-3, atol=1e-3)
    assert (np.abs(batch) == CLIP).any() and np.abs(batch).max() == CLIP


def test_part_of_a_packed_row_is_normalised_where_it_lies():
    normalizer = Normalizer(1, 2, 0.9, True, False)
    normalizer.see(np.array([[1.0, 2.0], [3.0, 6.0]], np.float32))
    rows = np.full((3, 5), 7.0, np.float32)
    normalizer.normalize_in_place(rows[:, 1:3])
    np.testing.assert_array_equal(rows[:, [0, 3, 4]], 7.0)
    np.testing.assert_allclose(rows[0, 1:3], [5.0, 1.5], rtol=1e-3)  # (7 - 2) / 1, (7 - 4) / 2


@pytest.mark.parametrize("constant", [0.0, 1.0, -3.5, 1e-6, 1e6])
@pytest.mark.parametrize("steps", [1, 10, 3000])
def test_a_constant_dimension_is_harmless(constant: float, steps: int):
    """It stays near zero, finite, and a first other value is at most the bound."""
    normalizer = Normalizer(8, 1, 0.99, True, False)
    obs = np.full((8, 1), constant, np.float32)
    for _ in range(steps):
        normalizer.see(obs)
    tensors = normalizer.tensors()
    assert all(np.isfinite(tensor).all() for tensor in tensors.values()) and (tensors["obs_std"] > 0).all()
    batch = obs.copy()
    normalizer.normalize_in_place(batch)
    np.testing.assert_allclose(batch, 0.0, atol=0.05)
    batch = obs + np.float32(1e-3 * max(abs(constant), 1.0))
    normalizer.normalize_in_place(batch)
    assert np.isfinite(batch).all() and np.abs(batch).max() <= CLIP


@given(
    st.lists(
        arrays.arrays(np.float32, (3, 2), elements=st.floats(-1e6, 1e6, width=32)), min_size=1, max_size=8
    )
)
def test_moments_of_any_batches(batches: list[np.ndarray]):
    """Against everything at once, with the start's mean 0 and variance 1 counted as a ten-thousandth."""
    moments = RunningMoments((2,))
    for batch in batches:
        moments.update(batch)
    flat = np.concatenate(batches).astype(np.float64)
    count, start = len(flat), 1e-4
    mean = flat.sum(axis=0) / (count + start)
    second = ((flat**2).sum(axis=0) + start) / (count + start)
    np.testing.assert_allclose(moments.mean, mean, rtol=1e-9, atol=1e-6)
    scale = np.maximum(second, 1.0)
    np.testing.assert_allclose(moments.var / scale, (second - mean**2) / scale, atol=1e-9)
    assert (moments.var >= 0).all() and np.isfinite(moments.var).all()


@given(
    st.lists(
        st.tuples(
            arrays.arrays(np.float64, 3, elements=st.floats(-1e4, 1e4)),
            arrays.arrays(np.bool_, 3),
        ),
        min_size=1,
        max_size=30,
    ),
    st.sampled_from([0.0, 0.5, 0.99]),
)
def test_scaled_off_policy_returns_stay_within_five(steps: list[tuple[np.ndarray, np.ndarray]], gamma: float):
    """However a task pays, no discounted sum seen so far is larger than 5 scales, and no reward than 10."""
    normalizer = Normalizer(3, 1, gamma, False, True)
    sums, largest, largest_reward = np.zeros(3), 0.0, 0.0
    for reward, ended in steps:
        normalizer.see_reward(reward, ended)
        sums = gamma * sums + reward
        largest = max(largest, float(np.abs(sums).max()))
        largest_reward = max(largest_reward, float(np.abs(reward).max()))
        sums = np.where(ended, 0.0, sums)
        scale = normalizer.reward_scale()
        assert scale > 0 and largest / scale <= 5.0 * (1 + 1e-9)
        assert largest_reward / scale <= 10.0 * (1 + 1e-9)
    again = Normalizer(3, 1, gamma, False, True)
    again.restore({name: np.array(array) for name, array in normalizer.arrays().items()})
    assert again.reward_scale() == normalizer.reward_scale()
