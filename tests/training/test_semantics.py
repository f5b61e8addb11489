"""Episodes, however the environments are stepped: every stored transition lies inside one episode, and every value is
bootstrapped where the episode was cut off, and only there.

10,000 episodes of a counter whose seed says how long an episode is and how it ends, so that each stored number can be
computed by hand from the observation alone.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from geoact import environments
from geoact.algorithms.ppo import gae
from geoact.algorithms.record import Rollout
from geoact.config import Vectorization
from geoact.critics import split_rows, td_target
from geoact.environments import Environments
from geoact.training.replay import Replay
from geoact.training.rollout import RolloutBuffer

GAMMA, DECAY = 0.9, 0.8


def value(obs: np.ndarray) -> np.ndarray:
    """Some value function; its slope in the tag would show a value taken from another episode."""
    return (0.001 * obs[..., 0] + obs[..., 1]).astype(np.float32)


def check(vectorization: Vectorization, episodes: int, count: int) -> None:
    envs = Environments(
        "Counter-v0", environments.factory("tests.probes:Counter-v0"), count, 3, vectorization
    )
    replay = Replay(5 * episodes + 5 * count, 2, 2)
    steps = []
    ended = 0
    while ended < episodes:
        step = envs.step(np.zeros((count, 2), np.float32))
        replay.add(step.obs, np.zeros((count, 2)), step.reward, step.terminated, step.next_obs)
        steps.append(step)
        ended += len(step.episodes)
    envs.close()

    # Replay: the target of each transition, from its tag and step alone.
    batch = split_rows(jnp.asarray(replay.rows[: len(replay)]), 2, 2)
    targets = np.asarray(td_target(batch, jnp.asarray(value(np.asarray(batch.next_obs))), GAMMA))
    tag, at = np.asarray(batch.obs).T
    last, terminates = at + 1 == 1 + tag.astype(int) % 5, tag.astype(int) % 2 == 0
    by_hand = (at + 1) + GAMMA * np.where(last & terminates, 0.0, 0.001 * tag + at + 1)
    np.testing.assert_allclose(targets, by_hand, rtol=1e-5)
    np.testing.assert_array_equal(np.asarray(batch.next_obs), np.stack([tag, at + 1], axis=1))
    assert last.sum() == ended
    assert 0.3 < np.mean(terminates[last]) < 0.7

    # Rollout: the advantage of each transition is the sum to its own episode's end, bootstrapped if it was cut off.
    buffer = RolloutBuffer(len(steps), count, 2, 2)
    for s in steps:
        buffer.add(s.obs, np.zeros((count, 2)), s.reward, s.terminated, s.truncated, s.next_obs)
    data = Rollout(**buffer.arrays, remaining=np.float32(0))  # type: ignore[arg-type]
    obs, next_obs = buffer.arrays["obs"], buffer.arrays["next_obs"]
    advantages = np.asarray(gae(data, jnp.asarray(value(obs)), jnp.asarray(value(next_obs)), GAMMA, DECAY))
    complete = np.cumsum(data.terminated + data.truncated, axis=0)
    complete = complete < complete[-1:]  # episodes that the rollout's end cuts are left out
    for tag, at, got in zip(obs[..., 0][complete], obs[..., 1][complete], advantages[complete]):
        length, expected, weight = 1 + int(tag) % 5, 0.0, 1.0
        for k in range(int(at), length):
            ends = k + 1 == length and int(tag) % 2 == 0
            after = 0.0 if ends else 0.001 * tag + k + 1
            expected += weight * ((k + 1) + GAMMA * after - (0.001 * tag + k))
            weight *= GAMMA * DECAY
        assert abs(got - expected) < 1e-3 * max(1.0, abs(expected))


def test_sync():
    check("sync", 10_000, 8)


def test_async():
    check("async", 400, 2)


@pytest.mark.slow
def test_async_over_many_episodes():
    check("async", 10_000, 8)


@pytest.mark.parametrize(("env", "seconds"), [("Hopper-v4", 1000), ("Pusher-v5", 100)])
def test_envpool(env, seconds):
    """EnvPool has no counter: Hopper ends by falling, which its last observation shows; Pusher by its time limit."""
    pytest.importorskip("envpool")
    envs = Environments(env, environments.factory(env), 4, 3, "envpool")
    rng = np.random.default_rng(0)
    ended, before = 0, None
    started = envs.obs
    for _ in range(350):
        step = envs.step(rng.uniform(-1, 1, (4, envs.action_dim)).astype(np.float32))
        if before is not None:
            over = before.terminated | before.truncated
            np.testing.assert_array_equal(step.obs[~over], before.next_obs[~over])
            # An episode begins near the pose that all begin from, far from where the last one ended.
            begin = np.broadcast_to(started[0, :3], (over.sum(), 3))
            np.testing.assert_allclose(step.obs[over][:, :3], begin, atol=0.02)
        if env == "Hopper-v4":
            height, angle = step.next_obs[:, 0], step.next_obs[:, 1]
            np.testing.assert_array_equal(step.terminated, (height <= 0.7) | (np.abs(angle) >= 0.2))
            assert not step.truncated.any()
        else:
            assert not step.terminated.any()
            assert all(length == seconds for _, length in step.episodes)
            assert step.truncated.sum() == len(step.episodes)
        ended += len(step.episodes)
        before = step
    envs.close()
    assert ended >= 12


def test_envpool_says_what_it_lacks():
    with pytest.raises(ValueError, match=r"EnvPool"):
        Environments("Counter-v0", environments.factory("tests.probes:Counter-v0"), 2, 0, "envpool")


@pytest.mark.parametrize("env", ["Hopper-v4", "HalfCheetah-v4", "Walker2d-v5"])
def test_envpool_is_the_same_task(env):
    """From EnvPool's first observation, Gymnasium's simulator goes the same way and earns the same."""
    pytest.importorskip("envpool")
    envs = Environments(env, environments.factory(env), 1, 3, "envpool")
    single = environments.make(env)
    single.reset(seed=0)
    inner: Any = single.unwrapped
    obs = envs.obs[0].astype(np.float64)
    positions = inner.model.nq - 1  # all but where it stands along the track, which nothing depends on
    inner.set_state(np.concatenate([[0.0], obs[:positions]]), obs[positions:])
    rng = np.random.default_rng(0)
    for _ in range(8):
        action = rng.uniform(-1, 1, envs.action_dim).astype(np.float32)
        step = envs.step(action[None])
        expected, reward, terminated, truncated, _ = single.step(action)
        np.testing.assert_allclose(step.next_obs[0], expected, rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(step.reward[0], float(reward), rtol=1e-3, atol=1e-3)
        assert (bool(step.terminated[0]), bool(step.truncated[0])) == (terminated, truncated)
    envs.close()
