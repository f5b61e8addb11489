"""The compiled update: its state, what it hands back, and when."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from geoact.algorithms import build
from geoact.algorithms.record import Algorithm, Learned
from geoact.config import GACConfig
from geoact.training.update import VALUE, CompiledUpdate


def toy(scale: float = 1.0) -> tuple[Algorithm, dict[str, jax.Array]]:
    """An algorithm whose numbers can be followed by hand: w <- w + mean(data), and noise of its key."""

    def update(state: dict[str, jax.Array], data: jax.Array, key: jax.Array) -> Learned:
        w = state["w"] + scale * jnp.mean(data)
        noise = jax.random.normal(key, ())
        state = {"w": w, "n": state["n"] + 1, "noise": noise}
        return Learned(state, jnp.mean(w), {"toy/b": w[1], "toy/a": noise, "toy/n": jnp.float32(state["n"])})

    algorithm = Algorithm(
        mode="off-policy",
        init=lambda key: {},
        update=update,
        policy=lambda state: {"layer.weight": jnp.outer(state["w"], jnp.ones(2)), "layer.bias": state["w"]},
        value_bound=lambda largest: 1.0,
    )
    return algorithm, {"w": jnp.zeros(3), "n": jnp.zeros((), jnp.int32), "noise": jnp.zeros(())}


def test_state_policy_and_metrics_are_those_of_the_algorithm():
    update = CompiledUpdate(*toy(), seed=3)
    assert update.tensors() is None and update.tensors_before() is None and update.metrics() == {}
    update.dispatch(np.full((4,), 2.0, np.float32), 0)
    assert update.tensors_before() is None
    tensors = update.tensors()
    assert tensors is not None
    np.testing.assert_array_equal(tensors["layer.bias"], [2.0, 2.0, 2.0])
    np.testing.assert_array_equal(tensors["layer.weight"], np.full((3, 2), 2.0))
    metrics = update.metrics()
    assert metrics.keys() == {VALUE, "toy/a", "toy/b", "toy/n"}
    assert (metrics[VALUE], metrics["toy/b"], metrics["toy/n"]) == (2.0, 2.0, 1.0)
    assert int(update.state["n"]) == 1


def test_the_policy_before_is_that_of_the_update_before():
    update = CompiledUpdate(*toy(), seed=0)
    for number in range(5):
        update.dispatch(np.full((4,), 1.0, np.float32), number)
        before, now = update.tensors_before(), update.tensors()
        assert now is not None and now["layer.bias"][0] == number + 1
        assert (before is None) if number == 0 else (before is not None and before["layer.bias"][0] == number)


def test_views_stay_as_they_were_while_later_updates_run():
    """The state is donated; the policy's tensors must not be part of what is overwritten."""
    update = CompiledUpdate(*toy(), seed=0)
    update.dispatch(np.ones(4, np.float32), 0)
    held = update.tensors()
    assert held is not None
    for number in range(1, 20):
        update.dispatch(np.ones(4, np.float32), number)
    update.tensors()
    np.testing.assert_array_equal(held["layer.bias"], 1.0)


def test_update_number_n_has_noise_of_its_own_whatever_was_before():
    def noise(seed: int, counts: list[int]) -> list[float]:
        update = CompiledUpdate(*toy(), seed=seed)
        found = []
        for count in counts:
            update.dispatch(np.ones(4, np.float32), count)
            found.append(update.metrics()["toy/a"])
        return found

    first = noise(0, [0, 1, 2, 7])
    assert len(set(first)) == 4
    assert noise(0, [7]) == first[3:] and noise(0, [2, 0]) == [first[2], first[0]]
    assert noise(1, [0]) != first[:1]


def test_restored_it_goes_on_as_if_the_last_update_had_given_that():
    first, second = (CompiledUpdate(*toy(), seed=0) for _ in range(2))
    for number in range(3):
        first.dispatch(np.ones(4, np.float32), number)
    second.restore(jax.tree.map(jnp.copy, first.state), first.metrics())
    assert second.metrics() == first.metrics()
    for mine, theirs in zip(jax.tree.leaves(second.tensors()), jax.tree.leaves(first.tensors()), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    for update in (first, second):
        update.dispatch(np.ones(4, np.float32), 3)
    assert second.metrics() == first.metrics()
    before = second.tensors_before()
    assert before is not None and before["layer.bias"][0] == 3.0


@pytest.mark.parametrize("seed", [0, 2**32 - 1])
def test_every_seed_that_a_run_may_have_is_a_key(seed: int):
    update = CompiledUpdate(*toy(), seed=seed)
    update.dispatch(np.ones(4, np.float32), 2**32 - 1)
    assert np.isfinite(update.metrics()["toy/a"])


def test_a_second_run_of_the_same_algorithm_is_not_traced_again():
    plain, state = toy()
    traced: list[int] = []

    def counted(state: Any, data: Any, key: jax.Array) -> Learned:
        traced.append(1)
        return plain.update(state, data, key)

    algorithm = dataclasses.replace(plain, update=counted)
    first, second = (CompiledUpdate(algorithm, jax.tree.map(jnp.copy, state), seed=seed) for seed in range(2))
    for update, times in ((first, 2), (second, 1)):
        for number in range(times):
            update.dispatch(np.ones(4, np.float32), number)
    assert len(traced) == 1
    assert (first.metrics()["toy/n"], second.metrics()["toy/n"]) == (2.0, 1.0)  # each with a state of its own
    assert first.metrics()["toy/a"] != second.metrics()["toy/a"]
    assert build("gac", GACConfig(slack=0, concentration="softplus"), 3, 2) is build(
        "gac", GACConfig(slack=0, concentration="softplus"), 3, 2
    )
