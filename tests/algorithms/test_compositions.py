"""What the off-policy algorithms are composed of: delayed policies, many critics, DroQ and REDQ as configurations."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from geoact.algorithms import build
from geoact.algorithms.record import Algorithm, Learned, delayed
from geoact.config import CriticConfig, GACConfig, OffPolicyConfig, SACConfig, TD3Config
from geoact.critics import actor_optimizer, actor_value, critic_optimizer, descend, steps_made
from geoact.policies import NetworkConfig
from geoact.training.off_policy import OffPolicyLearner
from geoact.transitions import row_width
from tests.training_cases import run_config, trained

OBS, ACTION = 3, 2
TINY = NetworkConfig((8,))
SETTINGS: dict[str, OffPolicyConfig] = {
    "gac": GACConfig(actor=TINY, critic=CriticConfig(hidden_sizes=(8,)), exploration="entropy"),
    "sac": SACConfig(actor=TINY, critic=CriticConfig(hidden_sizes=(8,))),
    "td3": TD3Config(actor=TINY, critic=CriticConfig(hidden_sizes=(8,), actor_value="one"), policy_delay=1),
}
DROQ: dict[str, Any] = {
    "critic": CriticConfig(hidden_sizes=(8,), layer_norm=True, dropout=0.01, actor_value="mean"),
    "updates_per_step": 20,
}
REDQ: dict[str, Any] = {  # with ten critics where compiling them costs nothing
    "critic": CriticConfig(hidden_sizes=(8,), count=4, target_subset=2, actor_value="mean"),
    "updates_per_step": 20,
}


def made(algorithm: str, **changes: Any) -> tuple[Algorithm, Any, OffPolicyConfig]:
    settings: Any = dataclasses.replace(SETTINGS[algorithm], **changes).resolve("Toy-v0", ACTION, 10**6)
    algorithm_ = build(algorithm, settings, OBS, ACTION)
    return algorithm_, algorithm_.init(jax.random.key(0)), settings


def rows(updates: int, seed: int = 0) -> jax.Array:
    rng = np.random.default_rng(seed)
    data = rng.standard_normal((updates, 8, row_width(OBS, ACTION))).astype(np.float32)
    data[..., OBS + ACTION + 1] = rng.integers(0, 2, (updates, 8))
    return jnp.asarray(data)


def equal(one: Any, other: Any) -> bool:
    return all(
        (np.asarray(a) == np.asarray(b)).all() for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other))
    )


@pytest.mark.parametrize("algorithm", ["gac", "sac"])
def test_a_delayed_policy_changes_at_every_third_update_and_its_metrics_wait_with_it(algorithm: str):
    built, state, settings = made(algorithm, policy_delay=3)
    update = jax.jit(built.update)
    waiting = ("losses/actor_loss", "policy/entropy", "losses/alpha")
    before: Learned | None = None
    for number in range(1, 8):
        learned = update(state, rows(1, number), jax.random.key(number))
        due = number % 3 == 0
        for part in ("actor", "actor_optimizer", "log_alpha", "alpha_optimizer"):
            assert equal(getattr(state, part), getattr(learned.state, part)) == (not due), (number, part)
        assert not equal(state.critic, learned.state.critic)
        assert not equal(state.target, learned.state.target)
        if before is not None:
            for name in waiting:
                assert (before.metrics[name] == learned.metrics[name]) == (not due), (number, name)
            assert before.metrics["losses/qf_loss"] != learned.metrics["losses/qf_loss"]
        state, before = learned.state, learned
    assert int(state.critic_optimizer[0].count) == 7
    assert int(state.actor_optimizer[0].count) == 2
    assert float(settings.actor_lr) > 0 and set(state.last_metrics) >= set(waiting)


@pytest.mark.parametrize("algorithm", ["gac", "sac"])
def test_without_a_delay_the_state_has_no_place_for_held_metrics(algorithm: str):
    built, state, _ = made(algorithm)
    assert state.last_metrics == {}
    learned = jax.jit(built.update)(state, rows(2), jax.random.key(0))
    assert int(learned.state.actor_optimizer[0].count) == 2 and learned.state.last_metrics == {}


def test_metrics_have_the_same_names_with_and_without_a_delay():
    names = [
        set(jax.eval_shape(built.update, state, rows(1), jax.random.key(0)).metrics)
        for built, state, _ in (made("gac"), made("gac", policy_delay=2))
    ]
    assert names[0] == names[1]


def test_the_delay_counts_updates_with_weight_decay_too():
    """AdamW's state is another tree than Adam's."""
    built, state, settings = made("sac", policy_delay=2, weight_decay=0.01)
    optimizer: Any = critic_optimizer(settings).init(state.actor)
    assert int(optimizer[0].count) == 0
    for number in range(1, 5):
        learned = jax.jit(built.update)(state, rows(1, number), jax.random.key(number))
        assert equal(state.actor, learned.state.actor) == (number % 2 == 1)
        state = learned.state


def test_delayed_by_itself():
    """At update 4 of a delay of 2 the function is called, at update 5 it is not."""
    _, state, _ = made("sac", policy_delay=2)
    for count, called in ((4, True), (5, False)):
        optimizer = (state.critic_optimizer[0]._replace(count=jnp.asarray(count)),)
        learned, metrics = delayed(
            lambda s: (
                s._replace(log_alpha=s.log_alpha + 1.0),
                {name: value + 7.0 for name, value in s.last_metrics.items()},
            ),
            state,
            2,
            optimizer,
        )
        assert float(learned.log_alpha) == (1.0 if called else 0.0)
        assert float(metrics["losses/actor_loss"]) == (7.0 if called else 0.0)


@pytest.mark.parametrize(
    "algorithm", ["sac", *(pytest.param(name, marks=pytest.mark.slow) for name in ("gac", "td3"))]
)
@pytest.mark.parametrize(
    "form", ["droq", *(pytest.param(form, marks=pytest.mark.slow) for form in ("redq", "one critic"))]
)
def test_forms_are_configurations(form: str, algorithm: str):
    """Each learns: every critic and the policy move, all metrics are finite, and the key decides."""
    one: dict[str, Any] = {"critic": CriticConfig(hidden_sizes=(8,), count=1)}
    settings = {"droq": DROQ, "redq": REDQ, "one critic": one}[form]
    built, state, config = made(algorithm, **settings)
    assert len(state.critic.members) == config.critic.count
    update = jax.jit(built.update)
    learned, again, other = (update(state, rows(3), jax.random.key(key)) for key in (0, 0, 1))
    assert all(np.isfinite(np.asarray(value)).all() for value in learned.metrics.values())
    assert all(np.isfinite(np.asarray(leaf)).all() for leaf in jax.tree.leaves(learned.state))
    for before, after in zip(state.critic.members, learned.state.critic.members, strict=True):
        assert not equal(before, after)
    assert not equal(state.actor, learned.state.actor)
    assert equal(learned, again) and not equal(learned.state.critic, other.state.critic)
    assert {f"losses/qf{i}_values" for i in range(1, config.critic.count + 1)} <= set(learned.metrics)


def test_the_policy_of_td3_climbs_the_first_critic():
    """Where the second critic's weights change, the step of TD3's policy does not."""
    first_one = CriticConfig(hidden_sizes=(8,), actor_value="one")
    for critic, same in ((first_one, True), (dataclasses.replace(first_one, actor_value="mean"), False)):
        built, state, config = made("td3", critic=critic, critic_lr=1e-12)
        first, second = state.critic.members
        louder = jax.tree.map(lambda x: 2.0 * x, second)
        changed = eqx.tree_at(lambda c: c.members, state.critic, (first, louder))
        update = jax.jit(built.update)
        steps = [
            update(state._replace(critic=c), rows(1), jax.random.key(0)) for c in (state.critic, changed)
        ]
        assert equal(steps[0].state.actor, steps[1].state.actor) == same
        batch = rows(1)[0]
        obs, action = batch[:, :OBS], batch[:, OBS : OBS + ACTION]
        values = np.stack(state.critic(obs, action))
        expected = values[0] if same else values.mean(axis=0)
        np.testing.assert_allclose(
            actor_value(state.critic, obs, action, config.critic), expected, rtol=1e-5, atol=1e-6
        )


def test_the_default_of_td3_is_the_first_critic_and_of_the_others_the_smaller():
    assert TD3Config().critic.actor_value == "one" and TD3Config().policy_delay == 2
    for kind in (GACConfig, SACConfig):
        assert kind().critic.actor_value == "min" and kind().policy_delay == 1
    for config in (TD3Config(), GACConfig(), SACConfig()):
        assert (config.critic.count, config.critic.target_value, config.critic.target_subset) == (
            2,
            "min",
            None,
        )


@pytest.mark.slow
@pytest.mark.parametrize("form", [DROQ, REDQ], ids=["droq", "redq"])
def test_forms_train_on_a_probe(form: dict[str, Any]):
    settings = dataclasses.replace(
        SETTINGS["sac"], **(form | {"updates_per_step": 3}), batch_size=8, buffer_size=300, learning_starts=5
    )
    session = trained(run_config("sac", settings, 60, num_envs=2, evaluations=1, eval_episodes=1))
    assert isinstance(session.learner, OffPolicyLearner)
    assert session.updates == 3 * (30 - 5)
    assert np.isfinite(session.policy(np.zeros(2, np.float32))).all()


@pytest.mark.parametrize("algorithm", ["gac", "sac", "td3"])
def test_the_policy_that_acts_is_the_average_of_the_one_that_learns(algorithm: str):
    """The same learning as without it, and beside it the average, computed by hand from the policies of each step."""
    built, state, _ = made(algorithm)
    averaging, averaged, _ = made(algorithm, policy_tau=0.25)
    expected = {name: np.asarray(tensor, np.float64) for name, tensor in built.policy(state).items()}
    for number in range(3):
        learned = jax.jit(built.update)(state, rows(2, number), jax.random.key(number))
        also = jax.jit(averaging.update)(averaged, rows(2, number), jax.random.key(number))
        state, averaged = learned.state, also.state
        assert equal(state, averaged.learning) and equal(learned.metrics, also.metrics)
        policy = built.policy(state)
        expected = {name: 0.75 * mean + 0.25 * np.asarray(policy[name]) for name, mean in expected.items()}
        for name, tensor in averaging.policy(averaged).items():
            np.testing.assert_allclose(tensor, expected[name], rtol=1e-5, atol=1e-7)
    assert not equal(averaging.policy(averaged), built.policy(state))


def test_without_averaging_the_state_holds_one_policy():
    """So that runs and checkpoints of before are what they were."""
    _, state, _ = made("sac", policy_tau=1)
    assert "learning" not in state._fields


@pytest.mark.parametrize("delay", [1, 3])
@pytest.mark.parametrize("weight_decay", [0.0, 0.01])
def test_learning_rates_fall_with_the_updates_made_each_at_its_own_speed(delay: int, weight_decay: float):
    """Adam's step under a constant gradient is the rate itself, so the rate is read off a weight."""
    settings = SACConfig(
        actor_lr=0.3,
        critic_lr=0.1,
        actor_lr_halving=3,
        critic_lr_halving=6,
        policy_delay=delay,
        weight_decay=weight_decay,
    )
    for optimizer, first, every in (
        (critic_optimizer(settings), 0.1, 1 / 6),
        (actor_optimizer(settings), 0.3, delay / 3),
    ):
        weight = jnp.zeros(())  # which weight decay leaves alone
        state = optimizer.init(weight)
        for step in range(5):
            assert int(steps_made(state)) == step
            moved, state = descend(weight, jnp.ones(()), state, optimizer)
            np.testing.assert_allclose(-moved, first / (1 + step * every), rtol=1e-4)


@pytest.mark.parametrize(("halving", "delay"), [(None, 1), (6, 2)])
def test_learning_rates_cool_down_to_zero_at_the_end(halving: int | None, delay: int):
    """Over the last half of ten updates, each rate on top of how it falls anyway."""
    settings = SACConfig(
        actor_lr=0.3,
        actor_lr_halving=halving,
        critic_lr=0.1,
        cool_down=0.5,
        policy_delay=delay,
        learning_starts=1,
    ).resolve("Toy-v0", 2, 8 * 11)
    assert settings.planned_updates == 10
    for optimizer, first, falls, every in (
        (critic_optimizer(settings), 0.1, None, 1),
        (actor_optimizer(settings), 0.3, halving, delay),
    ):
        weight, rates = jnp.zeros(()), []
        state = optimizer.init(weight)
        for _ in range(12 // every):
            moved, state = descend(weight, jnp.ones(()), state, optimizer)
            rates.append(-float(moved))
        made = np.arange(12 // every) * every
        usual = first / (1 + made / falls) if falls else first
        np.testing.assert_allclose(rates, usual * np.clip((10 - made) / 5, 0, 1), rtol=1e-4, atol=1e-8)


@pytest.mark.parametrize("algorithm", ["gac", "sac", "td3"])
def test_falling_rates_change_nothing_at_the_first_update_and_all_that_learns_later(algorithm: str):
    runs = []
    for halving in (None, 2):
        built, state, _ = made(algorithm, actor_lr_halving=halving, critic_lr_halving=halving)
        states = []
        for number in range(2):
            state = jax.jit(built.update)(state, rows(1, number), jax.random.key(number)).state
            states.append((state.actor, state.critic))
        runs.append(states)
    assert equal(runs[0][0], runs[1][0])
    for part in range(2):
        assert not equal(runs[0][1][part], runs[1][1][part])


@pytest.mark.parametrize("algorithm", ["gac", "sac"])
def test_a_whole_number_where_a_number_is_asked_for_is_one(algorithm: str):
    """1 is 1.0: the state has the same types, so that a checkpoint of the one fits the other."""
    trees = []
    for one in (1, 1.0):
        built, state, _ = made(algorithm, alpha_init=one, actor_lr=one, tau=one, target_entropy=-2 * one)
        learned = jax.eval_shape(built.update, state, rows(1), jax.random.key(0))
        trees.append([(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves((state, learned.state))])
    assert trees[0] == trees[1]
