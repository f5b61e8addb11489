"""The loop: schedule, reproducibility, guards; and evaluation."""

import dataclasses
import hashlib
import math

import jax
import numpy as np
import pytest

from geoact import environments
from geoact.config import GACConfig, RunConfig
from geoact.errors import TrainingFailed
from geoact.runs import CLOCK_KEYS
from geoact.training import Row, Training, due, evaluate, train

SMALL = GACConfig(hidden_size=16, batch_size=16, buffer_size=1000, learning_starts=10)
CONFIG = RunConfig(
    env="tests.probes:Counter-v0",
    algorithm="gac",
    settings=SMALL,
    timesteps=400,
    num_envs=4,
    evaluations=2,
    eval_episodes=2,
    log_points=5,
)


def start(config: RunConfig = CONFIG) -> Training:
    return Training(config, environments.factory(config.env))


def fingerprint(training: Training) -> str:
    digest = hashlib.sha256()
    for leaf in jax.tree.leaves(training.update.state):
        digest.update(np.asarray(leaf).tobytes())
    digest.update(training.replay.rows[: len(training.replay)].tobytes())
    digest.update(repr(training.rng.bit_generator.state).encode())
    return digest.hexdigest()


@pytest.mark.parametrize(("points", "total"), [(5, 100), (20, 30_000), (7, 10), (3, 3), (200, 16)])
def test_marks_are_evenly_spaced_and_the_last_is_at_the_end(points, total):
    marks = [step for step in range(1, total + 1) if due(step, points, total)]
    assert len(marks) == min(points, total)
    assert marks[-1] == total
    assert np.ptp(np.diff([0, *marks])) <= 1


def test_the_same_seed_gives_the_same_run_and_another_seed_another():
    def run(seed: int) -> tuple[str, list[Row]]:
        rows: list[Row] = []
        training = start(dataclasses.replace(CONFIG, seed=seed))
        assert train(training, lambda row: rows.append(row))
        training.close()
        return fingerprint(training), [{k: v for k, v in row.items() if k not in CLOCK_KEYS} for row in rows]

    first, again, other = run(0), run(0), run(1)
    assert first == again
    assert first[0] != other[0]


def test_counts_and_rows():
    rows: list[Row] = []
    training = start()
    assert train(training, lambda row: rows.append(row))
    training.close()
    assert training.timesteps == 400
    assert training.updates == 100 - 10  # one per vector step after the warm-up
    assert len(training.replay) == 400
    assert [row["step"] for row in rows] == [80, 160, 200, 240, 320, 400]
    assert [row["step"] for row in rows if "eval/return_mean" in row] == [200, 400]


def test_replay_holds_what_happened():
    """Every stored transition lies inside one episode; only terminations are marked as such."""
    training = start()
    train(training)
    training.close()
    rows = training.replay.rows[:400]
    obs, terminated, next_obs = rows[:, :2], rows[:, 5], rows[:, 6:]
    np.testing.assert_array_equal(obs[:, 0], next_obs[:, 0])
    np.testing.assert_array_equal(obs[:, 1] + 1, next_obs[:, 1])
    ends = next_obs[:, 1] == 1 + obs[:, 0].astype(int) % 5
    np.testing.assert_array_equal(terminated, ends & (obs[:, 0] % 2 == 0))
    assert np.abs(rows[:, 2:4]).max() <= 1.0  # the executed action


def test_replay_can_hold_the_raw_action():
    training = start(dataclasses.replace(CONFIG, settings=dataclasses.replace(SMALL, critic_action="raw")))
    train(training)
    training.close()
    lengths = np.linalg.norm(training.replay.rows[100:400, 2:4], axis=1)
    np.testing.assert_allclose(lengths, 2.5, rtol=1e-4)


def test_a_callback_can_stop_the_training():
    seen: list[Row] = []

    def stop_at_second(row: Row) -> bool:
        seen.append(row)
        return len(seen) < 2

    training = start()
    assert not train(training, stop_at_second)
    training.close()
    assert training.timesteps == 160


@pytest.mark.parametrize("broken", [math.nan, math.inf])
def test_a_broken_loss_stops_the_run(broken):
    training = start()
    with pytest.raises(TrainingFailed, match="losses/critic became"):
        training._require_sane({"losses/critic": broken, "losses/value": 0.0})
    training.close()


def test_values_beyond_what_the_rewards_allow_stop_the_run():
    training = start()
    training.envs.largest_reward = 5.0
    training._require_sane({"losses/value": 59_000.0})  # 100 * (1 + 5) / (1 - 0.99)
    with pytest.raises(TrainingFailed, match=r"diverged: the mean value is 6.1e\+04"):
        training._require_sane({"losses/value": 61_000.0})
    training.close()


def test_nan_parameters_are_met_before_they_act():
    training = start()
    for _ in range(12):
        training.step_off_policy()
    training.update.state = jax.tree.map(
        lambda x: x * np.float32(np.nan) if x.dtype == np.float32 else x, training.update.state
    )
    stored = len(training.replay)
    training.step_off_policy()  # acts with the last good parameters while the broken update runs
    with pytest.raises(TrainingFailed, match="non-finite action"):
        training.step_off_policy()
    assert len(training.replay) == stored + 4
    assert np.isfinite(training.replay.rows[: stored + 4]).all()
    training.close()


def test_evaluation_plays_each_episode_from_its_seed():
    training = start()
    factory = environments.factory(CONFIG.env)
    result = evaluate(training.policy, factory, 5, seed=3)
    env = environments.make(CONFIG.env)
    for i in range(5):
        obs, _ = env.reset(seed=3 + i)
        length = 1 + int(obs[0]) % 5
        assert result.lengths[i] == length
        assert result.returns[i] == length * (length + 1) / 2
    assert np.array_equal(evaluate(training.policy, factory, 5, seed=3).returns, result.returns)
    training.close()
