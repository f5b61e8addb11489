"""The off-policy learner: what is stored, what is learned from, and with which parameters it acts."""

import dataclasses
from typing import Any

import jax
import numpy as np
import pytest

from geoact import runtime
from geoact.config import GACConfig, RunConfig, SACConfig, TD3Config
from geoact.errors import TrainingFailed
from geoact.policies import normalized_obs
from geoact.runtime import NUMPY
from geoact.storage.runs import CLOCK_KEYS
from geoact.training.off_policy import OffPolicyLearner
from geoact.training.progress import Row
from geoact.training.session import Session
from tests.policy_cases import by_jax
from tests.training_cases import CRITIC, TINY, fingerprint, run_config, start

SMALL = GACConfig(actor=TINY, critic=CRITIC, batch_size=16, buffer_size=1000, learning_starts=10)
OPTIONS: dict[str, Any] = {"num_envs": 4, "evaluations": 2, "eval_episodes": 2, "log_points": 5}


def config(**changes: Any) -> RunConfig:
    return run_config("gac", dataclasses.replace(SMALL, **changes), 400, **OPTIONS)


def learner(session: Session) -> OffPolicyLearner:
    assert isinstance(session.learner, OffPolicyLearner)
    return session.learner


def trained(wanted: RunConfig) -> Session:
    with start(wanted) as session:
        assert session.train()
    return session


@pytest.fixture(scope="module")
def session() -> Session:
    return trained(config())


def test_counts_and_rows():
    rows: list[Row] = []
    with start(config()) as session:
        assert session.train(lambda row: rows.append(row))
    assert session.timesteps == 400
    assert session.updates == 100 - 10  # one per vector step after the warm-up
    assert len(learner(session).replay) == 400
    assert [row["step"] for row in rows] == [80, 160, 200, 240, 320, 400]
    assert [row["step"] for row in rows if "eval/return_mean" in row] == [200, 400]


def test_the_same_seed_gives_the_same_run_and_another_seed_another():
    def run(seed: int) -> tuple[str, list[Row]]:
        rows: list[Row] = []
        with start(dataclasses.replace(config(), seed=seed)) as session:
            assert session.train(lambda row: rows.append(row))
        return fingerprint(session), [{k: v for k, v in row.items() if k not in CLOCK_KEYS} for row in rows]

    first, again, other = run(0), run(0), run(1)
    assert first == again
    assert first[0] != other[0]


def test_replay_holds_what_happened(session: Session):
    """Every stored transition lies inside one episode; only terminations are marked as such."""
    rows = learner(session).replay.rows[:400]
    obs, terminated, next_obs = rows[:, :2], rows[:, 5], rows[:, 6:]
    np.testing.assert_array_equal(obs[:, 0], next_obs[:, 0])
    np.testing.assert_array_equal(obs[:, 1] + 1, next_obs[:, 1])
    ends = next_obs[:, 1] == 1 + obs[:, 0].astype(int) % 5
    np.testing.assert_array_equal(terminated, ends & (obs[:, 0] % 2 == 0))
    assert np.abs(rows[:, 2:4]).max() <= 1.0  # the executed action


def test_replay_can_hold_the_raw_action():
    session = trained(config(critic_action="raw"))
    lengths = np.linalg.norm(learner(session).replay.rows[100:400, 2:4], axis=1)
    np.testing.assert_allclose(lengths, 2.5, rtol=1e-4)


def test_replay_of_three_steps_holds_what_happened():
    """Rewards count the steps of an episode, so that each sum follows from the observation alone."""
    session = trained(config(n_step=3, gamma=0.5, normalize_obs=True))
    replay = learner(session).replay
    rows = replay.rows[: len(replay)]
    obs, reward, terminated, next_obs = rows[:, :2], rows[:, 4], rows[:, 5], rows[:, 6:]
    np.testing.assert_array_equal(obs[:, 0], next_obs[:, 0])
    length = 1 + obs[:, 0].astype(int) % 5
    span = np.minimum(3, length - obs[:, 1]).astype(int)
    np.testing.assert_array_equal(next_obs[:, 1], obs[:, 1] + span)
    by_hand = [sum(0.5**k * (at + k + 1) for k in range(m)) for at, m in zip(obs[:, 1], span)]
    np.testing.assert_allclose(reward, by_hand, rtol=1e-6)
    dead = (next_obs[:, 1] == length) & (obs[:, 0] % 2 == 0)
    np.testing.assert_allclose(terminated, np.where(dead, 1.0, 1.0 - 0.5 ** (span - 1)), atol=1e-7)
    # All steps of 400 but those still open: at most two of each environment.
    assert 400 - 2 * 4 <= len(replay) <= 400
    assert len({row.tobytes() for row in rows[:, [0, 1]]}) == len(rows)


def test_the_environments_act_with_parameters_one_update_old():
    with start(config()) as session:
        core = session.learner.core
        for _ in range(11):
            session.learner.step()
        assert session.updates == 1
        for _ in range(5):
            newest = {name: t.copy() for name, t in (core.update.tensors() or {}).items()}
            session.learner.step()
            for name, tensor in newest.items():
                np.testing.assert_array_equal(core.policy.tensors[name], tensor)
            assert any((core.policy.tensors[n] != t).any() for n, t in (core.update.tensors() or {}).items())


@pytest.mark.parametrize(
    ("starts", "timesteps", "expected"), [(10, 400, 10), (1000, 400, 20), (0, 400, 1), (10, 4, 1)]
)
def test_the_warm_up_is_never_more_than_a_fifth_of_the_run(starts: int, timesteps: int, expected: int):
    wanted = dataclasses.replace(config(learning_starts=starts), timesteps=timesteps)
    with start(wanted) as session:
        while not learner(session)._warm():
            session.learner.step()
            assert session.updates == 0
        assert session.learner.core.vector_steps == expected


def test_learning_once_begun_goes_on_when_the_run_is_made_longer():
    """A longer run would have a longer warm-up: it is not begun again."""
    with start(config(learning_starts=1000)) as session:
        assert session.train()
        session.change_total(4000)
        before = session.updates
        session.learner.step()
        assert session.updates == before + 1 == 81


def test_nan_parameters_are_met_before_they_act():
    with start(config()) as session:
        for _ in range(12):
            session.learner.step()
        core, replay = session.learner.core, learner(session).replay
        broken = jax.tree.map(
            lambda x: x * np.float32(np.nan) if x.dtype == np.float32 else x, core.update.state
        )
        core.update._leaves = jax.tree.leaves(broken)
        stored = len(replay)
        session.learner.step()  # acts with the last good parameters while the broken update runs
        with pytest.raises(TrainingFailed, match="non-finite action"):
            session.learner.step()
        assert len(replay) == stored + 4
        assert np.isfinite(replay.rows[: stored + 4]).all()


@pytest.mark.parametrize(
    ("count", "spread", "scales"),
    [(4, 1.0, [1, 1, 1, 1]), (3, 4.0, [0.25, 1, 4]), (4, 8.0, [0.125, 0.5, 2, 8]), (1, 4.0, [1])],
)
def test_environments_explore_with_different_strengths(count: int, spread: float, scales: list[float]):
    """The weight of the noise in a mixture w mu + (1 - w) s xi: its odds w / (1 - w) are divided by s."""
    wanted = config(noise_spread=spread, concentration="fixed", weight=0.8, exploration="none")
    with start(dataclasses.replace(wanted, num_envs=count)) as session:
        policy, rng = session.policy, np.random.default_rng(7)
        learner(session).core.rng = np.random.default_rng(7)
        noise, drawn = learner(session)._noise(), policy.noise(rng, count)
        np.testing.assert_allclose(noise, drawn * np.array(scales, np.float32)[:, None], rtol=1e-6)
        obs = np.ones((count, policy.spec.obs_dim), np.float32)
        chosen = policy.raw(obs, noise)
        for i, scale in enumerate(scales):
            odds = 4.0 / scale
            spec = dataclasses.replace(policy.spec.head, weight=odds / (1.0 + odds))
            other = runtime.Policy(dataclasses.replace(policy.spec, head=spec), policy.tensors)
            np.testing.assert_allclose(chosen[i], other.raw(obs, drawn)[i], rtol=1e-4, atol=1e-5)


# Normalised observations

NORMAL = {
    "gac": dataclasses.replace(SMALL, normalize_obs=True),
    "sac": SACConfig(
        actor=TINY, critic=CRITIC, batch_size=16, buffer_size=1000, learning_starts=10, normalize_obs=True
    ),
    "td3": TD3Config(
        actor=TINY, critic=CRITIC, batch_size=16, buffer_size=1000, learning_starts=10, normalize_obs=True
    ),
}


@pytest.mark.parametrize("algorithm", ["gac", "td3", pytest.param("sac", marks=pytest.mark.slow)])
def test_normalised_observations(algorithm: str, tmp_path: Any):
    """Raw in replay, normalised in the batches and before the policy, whose file keeps the statistics."""
    batches: list[np.ndarray] = []
    with start(run_config(algorithm, NORMAL[algorithm], 200, **OPTIONS)) as session:
        off, core = learner(session), session.learner.core
        plain = core.update.dispatch
        statistics: list[dict[str, np.ndarray]] = []

        def watch(data: Any, count: int) -> None:
            batches.append(data.copy())
            statistics.append(off._normalizer.tensors())
            plain(data, count)

        core.update.dispatch = watch  # type: ignore[method-assign]
        assert session.train()
    rows = off.replay.rows[: len(off.replay)]
    assert np.abs(rows[:, 0]).max() > 1000  # the episode's tag, as it came
    assert off._normalizer.observations.count == pytest.approx(200 + 4, abs=0.01)
    columns = off.replay.columns
    for data, tensors in list(zip(batches, statistics))[::7]:
        for part in ("obs", "next_obs"):
            seen = data[..., columns[part]].reshape(-1, 2)
            assert np.abs(seen).max() <= 10.0
            everything = normalized_obs(NUMPY, tensors, rows[:, columns[part]].copy(), 10.0)
            for row in seen:
                assert (everything == row).all(axis=1).any()
        other = data[..., columns["reward"]].ravel()
        assert set(other.tolist()) <= set(rows[:, columns["reward"]].tolist())  # rewards as they came
    policy = runtime.load(session.policy.save(tmp_path / "policy"))
    assert policy.spec.obs_clip == 10.0
    mean = off._normalizer.observations.mean
    np.testing.assert_allclose(policy.tensors["obs_mean"], mean, rtol=1e-6)
    obs = rows[:16, :2].copy()
    for noise in (None, policy.noise(np.random.default_rng(0), 16)):
        np.testing.assert_array_equal(policy.raw(obs, noise), session.policy.raw(obs, noise))
        np.testing.assert_allclose(by_jax(policy, obs, noise), policy.raw(obs, noise), rtol=1e-5, atol=1e-5)


def test_a_policy_with_normalised_observations_is_exported(tmp_path: Any):
    export = pytest.importorskip("geoact.deploy.export")
    pytest.importorskip("onnxruntime")
    session = trained(run_config("sac", NORMAL["sac"], 100, **OPTIONS))
    assert export.write_onnx(session.policy, tmp_path / "policy.onnx") < 1e-5


def test_a_constant_dimension_is_harmless():
    """Endless gives zeros for ever: everything stays finite and small."""
    with start(run_config("sac", NORMAL["sac"], 200, "Endless", num_envs=4, evaluations=0)) as session:
        assert session.train()
    for leaf in jax.tree.leaves(session.learner.core.update.state):
        assert np.isfinite(np.asarray(leaf)).all()
    tensors = session.policy.tensors
    assert (tensors["obs_std"] > 0).all() and (tensors["obs_mean"] == 0).all()
    for obs in ([0.0, 0.0], [1.0, -1.0], [1e6, 0.0]):
        assert np.isfinite(session.policy(np.asarray(obs, np.float32))).all()


def test_without_normalisation_the_policy_has_no_statistics(session: Session):
    assert session.policy.spec.obs_clip is None
    assert not {"obs_mean", "obs_std"} & session.policy.tensors.keys()
    assert not any(name.startswith("normalizer.") for name in session.learner.state()[0])


# Scaled rewards


def test_rewards_are_raw_in_replay_and_scaled_in_batches():
    """By the larger of the deviation of their discounted sums and a fifth of the largest one."""
    settings = dataclasses.replace(NORMAL["sac"], normalize_reward=True, gamma=0.5)
    found: list[tuple[np.ndarray, float]] = []
    with start(run_config("sac", settings, 200, **OPTIONS)) as session:
        off, core = learner(session), session.learner.core
        plain = core.update.dispatch

        def watch(data: Any, count: int) -> None:
            found.append((data[..., off.replay.columns["reward"]].copy(), off._normalizer.reward_scale()))
            plain(data, count)

        core.update.dispatch = watch  # type: ignore[method-assign]
        assert session.train()
    stored = off.replay.rows[:200, off.replay.columns["reward"]]
    assert set(stored.tolist()) <= {1.0, 2.0, 3.0, 4.0, 5.0}
    for scaled, scale in found[::7]:
        assert set(np.round(scaled * scale, 4).ravel().tolist()) <= {1.0, 2.0, 3.0, 4.0, 5.0}
        assert np.abs(scaled).max() <= 10.0
    # Discounted sums of 1, 2, 3, 4, 5 at gamma 1/2: 1, 2.5, 4.25, 6.125, 8.0625.
    assert off._normalizer.largest == 8.0625
    sums = [sum(0.5 ** (at - k) * (k + 1) for k in range(int(at) + 1)) for at in off.replay.rows[:200, 1]]
    expected = max(float(np.std(sums)), 8.0625 / 5)
    np.testing.assert_allclose(off._normalizer.reward_scale(), expected, rtol=1e-3)
