"""Running statistics, against NumPy over everything at once."""

import numpy as np

from geoact.normalization import Normalizer, RunningMoments


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
