"""The critics and their shared equations, against hand-computed numbers and plain loops."""

import dataclasses
import itertools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy.stats import norm

from geoact.config import Aggregate, CriticConfig, GACConfig, SACConfig, TD3Config
from geoact.critics import (
    Batch,
    Critics,
    Histogram,
    actor_value,
    aggregate,
    critic_loss,
    critic_optimizer,
    critic_step,
    polyak,
    split_rows,
    target_value,
    td_target,
)
from geoact.errors import InputError
from geoact.transitions import row_width

SMALL: dict[str, Any] = {"hidden_sizes": (8, 6)}


def batch(count: int = 4) -> Batch:
    keys = jax.random.split(jax.random.key(0), 3)
    return Batch(
        obs=jax.random.normal(keys[0], (count, 3)),
        action=jax.random.normal(keys[1], (count, 2)),
        reward=jnp.array([1.0, 2.0, 3.0, 4.0])[:count],
        terminated=jnp.array([0.0, 1.0, 0.0, 1.0])[:count],
        next_obs=jax.random.normal(keys[2], (count, 3)),
    )


def critics(**settings: Any) -> tuple[Critics, CriticConfig]:
    config = CriticConfig(**(SMALL | settings))
    return Critics(jax.random.key(0), 3, 2, config), config


def values_of(members: Critics, obs: Any, action: Any, layer_norm: bool = False) -> np.ndarray:
    """Every critic's values by a plain NumPy loop.  # [count, batch]"""
    found = []
    for member in members.members:
        y = np.concatenate([np.asarray(obs), np.asarray(action)], axis=1).astype(np.float64)
        for i, layer in enumerate(member.layers):
            y = y @ np.asarray(layer.weight, np.float64).T + np.asarray(layer.bias, np.float64)
            if i < len(member.layers) - 1:
                if layer_norm:
                    y = (y - y.mean(axis=1, keepdims=True)) / np.sqrt(y.var(axis=1, keepdims=True) + 1e-5)
                y = np.maximum(y, 0.0)
        found.append(y[:, 0])
    return np.stack(found)


def test_only_termination_ends_the_sum():
    y = td_target(batch(), jnp.array([10.0, 20.0, -30.0, 40.0]), 0.9)
    np.testing.assert_allclose(y, [1.0 + 9.0, 2.0, 3.0 - 27.0, 4.0], rtol=1e-6)


def test_a_transition_over_several_steps_discounts_by_its_own_length():
    """`terminated` = 1 - gamma^(m-1) makes gamma^m of the one gamma."""
    data = batch()._replace(terminated=1.0 - jnp.array([1.0, 0.9, 0.81, 0.0]))
    y = td_target(data, jnp.full(4, 100.0), 0.9)
    np.testing.assert_allclose(y, [1 + 90.0, 2 + 81.0, 3 + 72.9, 4.0], rtol=1e-5)


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("layer_norm", [False, True])
def test_every_critic_is_the_plain_numpy_loop(count: int, layer_norm: bool):
    members, _ = critics(count=count, layer_norm=layer_norm)
    data = batch()
    found = members(data.obs, data.action)
    assert len(found) == count
    expected = values_of(members, data.obs, data.action, layer_norm)
    np.testing.assert_allclose(np.stack(found), expected, rtol=1e-4, atol=1e-5)
    assert len({float(values[0]) for values in found}) == count  # each has weights of its own


@pytest.mark.parametrize("hidden_sizes", [(4,), (8, 6), (5, 4, 7)])
def test_critics_of_any_depth(hidden_sizes: tuple[int, ...]):
    members, _ = critics(hidden_sizes=hidden_sizes, count=2)
    data = batch()
    assert [layer.weight.shape[0] for layer in members.members[0].layers] == [*hidden_sizes, 1]
    expected = values_of(members, data.obs, data.action)
    np.testing.assert_allclose(np.stack(members(data.obs, data.action)), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("how", ["min", "mean", "one"])
def test_aggregates(count: int, how: Aggregate):
    members, config = critics(count=count, target_value=how, actor_value=how)
    data = batch()
    values = values_of(members, data.obs, data.action)
    expected = {"min": values.min(axis=0), "mean": values.mean(axis=0), "one": values[0]}[how]
    np.testing.assert_allclose(aggregate(members(data.obs, data.action), how), expected, rtol=1e-4, atol=1e-5)
    taken = target_value(members, data.obs, data.action, config, jax.random.key(5))
    np.testing.assert_allclose(taken, expected, rtol=1e-4, atol=1e-5)
    climbed = actor_value(members, data.obs, data.action, config)
    np.testing.assert_allclose(climbed, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("how", ["min", "mean"])
def test_the_target_looks_at_a_random_few(how: Aggregate):
    """Each draw is the aggregate of some two of five, the same two for the whole batch; in time all pairs come up."""
    members, config = critics(count=5, target_subset=2, target_value=how)
    data = batch()
    values = values_of(members, data.obs, data.action)
    pairs = {
        pair: values[list(pair)].min(axis=0) if how == "min" else values[list(pair)].mean(axis=0)
        for pair in itertools.combinations(range(5), 2)
    }
    draw = jax.jit(lambda key: target_value(members, data.obs, data.action, config, key))
    seen = set()
    for number in range(120):
        found = np.asarray(draw(jax.random.key(number)))
        matching = [p for p, expected in pairs.items() if np.allclose(found, expected, rtol=1e-4, atol=1e-5)]
        assert matching, f"key {number} is no pair's"
        seen.update(matching)
    assert seen == set(pairs)
    np.testing.assert_array_equal(draw(jax.random.key(3)), draw(jax.random.key(3)))


def test_a_subset_of_all_is_all_of_them():
    members, config = critics(count=3, target_subset=3)
    data = batch()
    everything = values_of(members, data.obs, data.action).min(axis=0)
    found = target_value(members, data.obs, data.action, config, jax.random.key(0))
    np.testing.assert_allclose(found, everything, rtol=1e-4, atol=1e-5)


def test_dropout_needs_a_key_and_is_that_of_its_key():
    members, config = critics(count=2, dropout=0.5)
    data = batch()
    without = np.stack(members(data.obs, data.action))
    np.testing.assert_allclose(without, values_of(members, data.obs, data.action), rtol=1e-4, atol=1e-5)
    first, again, other = (np.stack(members(data.obs, data.action, jax.random.key(key))) for key in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any() and (first != without).any()
    # Critics drop different units: with equal weights they would otherwise agree.
    twins = eqx.tree_at(lambda c: c.members, members, (members.members[0], members.members[0]))
    one, two = twins(data.obs, data.action, jax.random.key(1))
    assert (one != two).any()
    # The target is under dropout too, the policy's climb is not.
    targets = [
        np.asarray(target_value(members, data.obs, data.action, config, jax.random.key(k))) for k in (1, 2)
    ]
    assert (targets[0] != targets[1]).any()
    np.testing.assert_allclose(
        actor_value(members, data.obs, data.action, config), without.min(axis=0), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("count", [1, 2, 5])
def test_critic_step_is_gradient_descent_on_the_sum_of_all_errors(count: int):
    members, _ = critics(count=count)
    data, y = batch(), jnp.arange(4.0)

    def loss(parameters: Critics) -> jax.Array:
        errors = [jnp.mean((values - y) ** 2) for values in parameters(data.obs, data.action)]
        return sum(errors[1:], errors[0])

    sgd = optax.sgd(0.1)
    stepped, _, value, metrics = critic_step(members, sgd.init(members), sgd, data, y)  # pyright: ignore[reportArgumentType]
    expected = jax.tree.map(lambda p, g: p - 0.1 * g, members, jax.grad(loss)(members))
    np.testing.assert_allclose(metrics["losses/qf_loss"], loss(members), rtol=1e-6)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7), stepped, expected)
    each = values_of(members, data.obs, data.action).mean(axis=1)
    np.testing.assert_allclose(value, each.mean(), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(metrics["losses/qf_values"], each.mean(), rtol=1e-4, atol=1e-6)
    for number, mean in enumerate(each, 1):
        np.testing.assert_allclose(metrics[f"losses/qf{number}_values"], mean, rtol=1e-4, atol=1e-6)
    assert len(metrics) == 2 + count


def test_the_loss_is_under_dropout_where_there_is_a_key():
    members, _ = critics(dropout=0.5)
    data, y = batch(), jnp.zeros(4)
    dropped, _ = critic_loss(members, data, y, jax.random.key(0))
    values = np.stack(members(data.obs, data.action, jax.random.key(0)))
    np.testing.assert_allclose(dropped, (values**2).mean(axis=1).sum(), rtol=1e-5)
    assert float(dropped) != float(critic_loss(members, data, y)[0])


@pytest.mark.parametrize("kind", [GACConfig, SACConfig, TD3Config])
def test_weight_decay_is_that_of_adamw(kind: type[GACConfig]):
    members, _ = critics()
    data, y = batch(), jnp.arange(4.0)
    theirs = optax.adamw(0.01, weight_decay=0.1)
    ours = critic_optimizer(kind(critic_lr=0.01, weight_decay=0.1))
    plain = critic_optimizer(kind(critic_lr=0.01))
    results = []
    for optimizer in (ours, theirs, plain, optax.adam(0.01)):
        stepped, state = members, optimizer.init(eqx.filter(members, eqx.is_array))
        for _ in range(3):
            stepped, state, _, _ = critic_step(stepped, state, optimizer, data, y)
        results.append([np.asarray(leaf) for leaf in jax.tree.leaves(stepped)])
    for mine, other in ((results[0], results[1]), (results[2], results[3])):
        for a, b in zip(mine, other, strict=True):
            np.testing.assert_array_equal(a, b)
    assert any((a != b).any() for a, b in zip(results[0], results[2]))


def test_polyak_moves_a_share_towards_the_critic():
    slow, fast = (Critics(jax.random.key(k), 3, 2, CriticConfig(**SMALL)) for k in (0, 1))
    moved = polyak(slow, fast, 0.25)
    jax.tree.map(
        lambda m, s, f: np.testing.assert_allclose(m, 0.75 * s + 0.25 * f, rtol=1e-5, atol=1e-7),
        moved,
        slow,
        fast,
    )


def test_rows_are_split_by_the_one_layout():
    rows = jnp.arange(2.0 * row_width(3, 2)).reshape(2, -1)
    found = split_rows(rows, 3, 2)
    assert found.obs[0].tolist() == [0.0, 1.0, 2.0] and found.action[0].tolist() == [3.0, 4.0]
    assert (float(found.reward[0]), float(found.terminated[0])) == (5.0, 6.0)
    assert found.next_obs[0].tolist() == [7.0, 8.0, 9.0]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"count": 0}, "count must be greater than 0, got 0"),
        ({"target_subset": 3}, "target-subset is 3, of 2 critics"),
        ({"target_subset": 0}, "target-subset must be greater than 0"),
        ({"dropout": 1.0}, r"dropout must be in [0, 1), got 1.0"),
        ({"dropout": -0.1}, r"dropout must be in [0, 1)"),
        ({"target_value": "max"}, "target-value must be one of min, mean, one, got 'max'"),
        ({"actor_value": "first"}, "actor-value must be one of min, mean, one"),
        ({"bins": 1}, "bins must be between 2 and 1001, got 1"),
        ({"support": 0.0}, "support must be greater than 0"),
        ({"loss": "mae"}, "loss must be one of mse, hl-gauss, got 'mae'"),
        ({"hidden_sizes": (0,)}, "hidden-sizes must be 1 to 16 widths"),
    ],
)
def test_critics_that_do_not_exist_are_refused(settings: dict[str, Any], sentence: str):
    with pytest.raises(InputError) as caught:
        CriticConfig(**settings)
    assert sentence in str(caught.value)


# A histogram of the value


@pytest.mark.parametrize(("bins", "support"), [(2, 1.0), (21, 7.0), (101, 7.0)])
def test_the_target_of_a_histogram_is_a_gaussian_cut_to_the_support(bins: int, support: float):
    histogram = Histogram(bins, support)
    y = np.array([-2 * support, -support, -0.3 * support, 0.0, 0.11 * support, 0.999 * support, 5 * support])
    found = np.asarray(histogram.project(jnp.asarray(y, jnp.float32)))
    edges = np.linspace(-support, support, bins + 1)
    around = np.clip(y, -support, support)[:, None]
    mass = np.diff(norm.cdf(edges, around, 0.75 * 2 * support / bins), axis=1)
    np.testing.assert_allclose(found, mass / mass.sum(axis=1, keepdims=True), atol=1e-5)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-5)
    assert (found >= 0).all()
    centers = (edges[:-1] + edges[1:]) / 2
    logits = np.random.default_rng(0).standard_normal((4, bins)).astype(np.float32)
    weights = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(histogram.mean(jnp.asarray(logits)), weights @ centers, rtol=1e-4, atol=1e-5)


def test_a_value_inside_survives_its_histogram():
    histogram = Histogram(101, 7.0)
    y = jnp.linspace(-5.0, 5.0, 50)
    projected = histogram.project(y)
    np.testing.assert_allclose(histogram.mean(jnp.log(projected + 1e-30)), y, atol=1e-3)


def test_the_loss_of_a_histogram_is_the_cross_entropy():
    members, config = critics(loss="hl-gauss", bins=11, support=4.0)
    data, y = batch(), jnp.asarray([-1.0, 0.5, 2.0, 100.0])
    loss, values = critic_loss(members, data, y)
    histogram = Histogram(11, 4.0)
    wanted, expected = np.asarray(histogram.project(y), np.float64), 0.0
    for member, value in zip(members.members, values, strict=True):
        logits = np.asarray(member(data.obs, data.action), np.float64)
        assert logits.shape == (4, 11)
        logs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        expected -= np.mean(np.sum(wanted * logs, axis=1))
        np.testing.assert_allclose(
            value, np.mean(histogram.mean(jnp.asarray(logits, jnp.float32))), rtol=1e-4
        )
    np.testing.assert_allclose(loss, expected, rtol=1e-5)
    first = actor_value(members, data.obs, data.action, dataclasses.replace(config, actor_value="one"))
    np.testing.assert_allclose(first, members(data.obs, data.action)[0], rtol=1e-6)


def test_a_histogram_learns_the_mean_of_its_targets():
    members, _ = critics(loss="hl-gauss", bins=21, support=7.0, count=1)
    data, adam = batch(), optax.adam(0.02)
    state = adam.init(eqx.filter(members, eqx.is_array))
    y = jnp.asarray([-3.0, 0.0, 2.5, 4.0])
    step = jax.jit(lambda members, state: critic_step(members, state, adam, data, y)[:2])
    for _ in range(300):
        members, state = step(members, state)
    np.testing.assert_allclose(members(data.obs, data.action)[0], y, atol=0.1)


def test_a_histogram_needs_scaled_rewards():
    with pytest.raises(InputError, match="add --normalize-reward"):
        SACConfig(critic=CriticConfig(loss="hl-gauss"))
    SACConfig(critic=CriticConfig(loss="hl-gauss"), normalize_reward=True)
