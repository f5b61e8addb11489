"""GAC: sizes, the learning rule against a plain computation, and a probe with a known answer."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from geoact import environments, policies, sphere
from geoact.algorithms.gac import build, clip_inward
from geoact.algorithms.soft import SoftState
from geoact.config import GACConfig, RunConfig
from geoact.networks import JAX
from geoact.training.evaluation import evaluate
from geoact.training.session import Session
from geoact.transitions import row_width
from tests.probes import TARGET
from tests.training_cases import networks, run_config, trained

OBS, ACTION = 5, 3


def resolved(**settings: object) -> GACConfig:
    small = GACConfig(**networks(16, 16), batch_size=32)
    return dataclasses.replace(small, **settings).resolve("Test-v0", ACTION, 10**6)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("d", [2, 6, 17])
def test_output_and_parameter_counts_are_the_papers(d):
    def layers(config: GACConfig) -> dict[str, tuple[int, int]]:
        head = config.resolve("Test-v0", d, 10**6).head()
        return policies.layers("geometric", head, config.actor, 17, d)

    def outputs(found: dict[str, tuple[int, int]]) -> int:
        """Numbers the heads put out."""
        heads = ("direction", "concentration.1", "scale")
        return sum(fan_out for name, (fan_out, _) in found.items() if name in heads)

    def parameters(found: dict[str, tuple[int, int]]) -> int:
        return sum(fan_out * fan_in + fan_out for fan_out, fan_in in found.values())

    fixed, scale = layers(GACConfig()), layers(GACConfig(scale="learned"))
    assert outputs(fixed) == d + 1
    assert outputs(scale) == 2 * d + 1
    assert scale["scale"] == (d, 64)  # 64 d weights: the paper's "+384 parameters" at d = 6
    assert parameters(scale) - parameters(fixed) == 64 * d + d


def rows(key: int = 0, count: int = 32) -> np.ndarray:
    rng = np.random.default_rng(key)
    data = rng.standard_normal((1, count, row_width(OBS, ACTION))).astype(np.float32)
    data[..., OBS : OBS + ACTION] = rng.uniform(-1, 1, (1, count, ACTION))
    data[..., OBS + ACTION + 1] = rng.integers(0, 2, (1, count))
    return data


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"exploration": "entropy"},
        {"exploration": "entropy", "center_entropy": True, "target_entropy": -4.5},
        {"exploration": "none"},
        {"scale": "learned"},
        {"slack": 1, "exploration": "entropy"},
        {"critic_action": "raw"},
        {"clip_gradient": "inward"},
        {"concentration": "published", "normalize_mixture": False},
    ],
)
def test_losses_are_the_papers_equations(settings):
    """The reported losses against the equations written out in NumPy from the networks' outputs."""
    config = resolved(**settings)
    algorithm = build(config, OBS, ACTION)
    state: SoftState = algorithm.init(jax.random.key(0))
    data, key = rows(), jax.random.key(1)
    target_key, actor_key = jax.random.split(jax.random.split(key, 1)[0])
    o, a = OBS, OBS + ACTION
    obs, action, reward, terminated, next_obs = np.split(data[0], (o, a, a + 1, a + 2), axis=-1)

    def play(observation: np.ndarray, noise_key: jax.Array) -> tuple[np.ndarray, np.ndarray]:
        hidden = policies.hidden(JAX, config.actor, state.actor, jnp.asarray(observation))
        out = policies.geometric_outputs(JAX, config.head(), state.actor, hidden)
        noise = np.asarray(sphere.uniform(noise_key, (len(observation),), ACTION + config.head().slack))
        mu, w = np.asarray(out.direction), np.asarray(out.weight)
        v = w * mu + (1 - w) * noise
        if config.normalize_mixture:
            v /= np.linalg.norm(v, axis=-1, keepdims=True)
        chosen = np.asarray(out.scale) * v[:, :ACTION]
        penalty = np.zeros(len(observation))
        if config.exploration == "kappa":
            penalty = np.asarray(out.kappa)[:, 0]
        if config.exploration == "entropy":  # alpha starts at 1
            penalty = -sphere.entropy_exact(np.asarray(out.kappa)[:, 0], ACTION + config.head().slack)
            penalty -= 4.5 if config.center_entropy else 0.0
        return (np.clip(chosen, -1, 1) if config.critic_action == "executed" else chosen), penalty

    next_action, next_penalty = play(next_obs, target_key)
    q_next = np.minimum(
        *(np.asarray(q) for q in state.target(jnp.asarray(next_obs), jnp.asarray(next_action)))
    )
    y = reward[:, 0] + 0.99 * (1 - terminated[:, 0]) * (q_next - next_penalty)
    first, second = (np.asarray(q) for q in state.critic(jnp.asarray(obs), jnp.asarray(action)))
    critic_loss = np.mean((first - y) ** 2) + np.mean((second - y) ** 2)
    chosen, penalty = play(obs, actor_key)

    updated, value, metrics = jax.jit(algorithm.update)(state, jnp.asarray(data), key)
    np.testing.assert_allclose(metrics["losses/qf_loss"], critic_loss, rtol=2e-4)
    np.testing.assert_allclose(value, (first.mean() + second.mean()) / 2, rtol=2e-4, atol=1e-6)
    if config.scale == "learned":
        each = [metrics[f"policy/scale/{i}"] for i in range(ACTION)]
        np.testing.assert_allclose(metrics["policy/scale"], np.mean(each), rtol=1e-4)
        np.testing.assert_allclose(metrics["policy/scale_deviation"], np.std(each), rtol=1e-3)
    # The actor is judged by the critic after its step.
    q = np.minimum(*(np.asarray(v) for v in updated.critic(jnp.asarray(obs), jnp.asarray(chosen))))
    np.testing.assert_allclose(metrics["losses/actor_loss"], np.mean(penalty - q), rtol=2e-4, atol=1e-5)
    # Adam's first step has the size of the learning rate, wherever there is a gradient.
    before, after = (critic.members[0].layers[0].weight for critic in (state.critic, updated.critic))
    moved = np.abs(np.asarray(after - before))
    np.testing.assert_allclose(np.median(moved), config.critic_lr, rtol=1e-2)


def test_what_is_clipped_learns_to_come_back_and_nothing_else():
    """A clipped coordinate's gradient is that of the box's edge where descent leads inward, and zero otherwise."""
    raw = jnp.array([-2.0, -1.0, -0.5, 0.5, 1.0, 2.0])
    np.testing.assert_array_equal(clip_inward(raw), [-1, -1, -0.5, 0.5, 1, 1])
    up, down = (jax.grad(lambda x, s=sign: jnp.sum(s * clip_inward(x)))(raw) for sign in (1.0, -1.0))
    np.testing.assert_array_equal(up, [0, 1, 1, 1, 1, 1])  # descent lowers: from above it comes back
    np.testing.assert_array_equal(down, [-1, -1, -1, -1, -1, 0])
    # Half of the actions are clipped, so the two derivatives make two policies, and the same critics.
    states = []
    for gradient in ("zero", "inward"):
        algorithm = build(resolved(clip_gradient=gradient), OBS, ACTION)
        states.append(
            jax.jit(algorithm.update)(
                algorithm.init(jax.random.key(0)), jnp.asarray(rows()), jax.random.key(1)
            )[0]
        )
    first, second = states
    assert all(jax.tree.leaves(jax.tree.map(lambda a, b: bool((a == b).all()), first.critic, second.critic)))
    assert not np.allclose(first.actor["direction.weight"], second.actor["direction.weight"])


def test_alpha_falls_while_there_is_more_entropy_than_asked_for():
    config = resolved(exploration="entropy")
    algorithm = build(config, OBS, ACTION)
    state = algorithm.init(jax.random.key(0))
    updated, _, metrics = jax.jit(algorithm.update)(state, jnp.asarray(rows()), jax.random.key(1))
    assert metrics["policy/entropy"] > -ACTION
    np.testing.assert_allclose(updated.log_alpha, -config.alpha_lr, rtol=1e-3)


def test_a_scan_over_batches_makes_one_update_for_each():
    algorithm = build(resolved(), OBS, ACTION)
    state = algorithm.init(jax.random.key(0))
    both = jnp.concatenate([jnp.asarray(rows(0)), jnp.asarray(rows(1))])
    updated, _, _ = jax.jit(algorithm.update)(state, both, jax.random.key(1))
    assert int(updated.critic_optimizer[0].count) == 2
    assert int(updated.actor_optimizer[0].count) == 2


def probe_run(settings: GACConfig, timesteps: int) -> tuple[Session, float]:
    config = run_config("gac", settings, timesteps, "Reach", evaluations=1, eval_episodes=1)
    session = trained(config)
    return session, float(evaluate(session.policy, environments.factory(config.env), 1).returns[0])


def test_probe_direction_and_magnitude_are_reached_with_slack():
    """The target has length 0.5: slack lets the norm of the action fall to it. The best return is 0."""
    settings = GACConfig(
        **networks(32, 32),
        batch_size=64,
        radius=1.5,
        slack=1,
        exploration="entropy",
        target_entropy=-6.0,
        actor_lr=3e-3,
        critic_lr=3e-3,
        alpha_lr=1e-2,
        learning_starts=50,
    )
    session, score = probe_run(settings, 12_000)
    action = session.policy(np.zeros(2, np.float32))
    assert np.linalg.norm(action - TARGET) < 0.12, action
    assert score > -0.015


@pytest.mark.slow
def test_probe_without_slack_keeps_the_norm():
    """The paper's form reaches the direction, and cannot reach the magnitude: every action has norm r = 0.9."""
    settings = GACConfig(
        **networks(32, 32), batch_size=64, radius=0.9, actor_lr=3e-3, critic_lr=3e-3, learning_starts=50
    )
    session, score = probe_run(settings, 6_000)
    action = session.policy(np.zeros(2, np.float32))
    np.testing.assert_allclose(np.linalg.norm(action), 0.9, rtol=1e-4)
    cosine = action @ TARGET / (np.linalg.norm(action) * np.linalg.norm(TARGET))
    assert cosine > 0.98
    assert score < -0.15  # (0.9 - 0.5)^2 is the least loss at this norm


@pytest.mark.slow
def test_pendulum_trains_with_slack():
    config = RunConfig(
        env="Pendulum-v1",
        algorithm="gac",
        settings=GACConfig(exploration="entropy", updates_per_step=4, learning_starts=250),
        timesteps=40_000,
        evaluations=1,
    )
    session = trained(config)
    assert isinstance(session.config.settings, GACConfig) and session.config.settings.slack == 1
    assert evaluate(session.policy, environments.factory(config.env), 20).returns.mean() > -250
