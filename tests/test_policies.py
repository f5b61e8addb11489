"""Every kind of policy: the function that JAX, NumPy and ONNX run, against its equations in plain NumPy."""

import itertools
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from geoact import config, policies, runtime
from geoact.deploy import export
from geoact.errors import InputError
from geoact.policies import KINDS, Activation, NetworkConfig
from geoact.runtime import NUMPY, Policy
from tests.policy_cases import (
    ACTION_DIM,
    HEADS,
    NETWORKS,
    OBS_DIM,
    by_hand,
    by_jax,
    cases,
    make,
    observations,
)


def check(policy: Policy) -> None:
    """NumPy, on a batch and on one observation, and JAX, deterministic and stochastic."""
    obs = observations(32)
    for noise in (None, policy.noise(np.random.default_rng(7), len(obs))):
        expected = by_hand(policy, obs, noise)
        # Actions that are not bounded by a radius or a tanh are as large as the network's outputs: relative there.
        close: dict[str, Any] = {"rtol": 3e-5, "atol": 2e-5 * max(1.0, np.abs(expected).max())}
        batch = policy.raw(obs, noise)
        assert batch.dtype == np.float32
        np.testing.assert_allclose(batch, expected, **close)
        np.testing.assert_allclose(by_jax(policy, obs, noise), expected, **close)
        for i in range(0, len(obs), 7):
            one = policy.raw(obs[i], None if noise is None else noise[i])
            np.testing.assert_allclose(one, expected[i], **close)


@pytest.mark.parametrize("kind", list(KINDS))
def test_every_network_in_every_library(kind: str) -> None:
    """Activations, layer norm, one to three layers of unequal widths, normalised observations; the heads in turn."""
    for head, network, normalized in cases(kind):
        check(make(kind, head, network, normalized))


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(KINDS))
def test_every_network_with_every_head(kind: str) -> None:
    for head, network, normalized in itertools.product(HEADS[kind], NETWORKS, (False, True)):
        check(make(kind, head, network, normalized))


@pytest.mark.parametrize("kind", list(KINDS))
def test_a_file_gives_back_any_depth_and_any_network(kind: str, tmp_path: Path) -> None:
    obs = observations(3)
    for head, network, normalized in list(cases(kind))[::5]:
        policy = make(kind, head, network, normalized)
        again = runtime.load(policy.save(tmp_path / "policy"))
        assert again.spec == policy.spec
        for rng in (lambda: None, lambda: np.random.default_rng(0)):
            np.testing.assert_array_equal(again(obs, rng()), policy(obs, rng()))


@pytest.mark.parametrize("kind", list(KINDS))
def test_one_action_and_one_unit(kind: str) -> None:
    """Sizes at which NumPy gives plain numbers instead of arrays."""
    for head in HEADS[kind]:
        policy = make(kind, head, NetworkConfig((1,), "silu"), True, OBS_DIM, action_dim=1)
        if policies.noise_dim(kind, head, 1) > 1 or kind != "geometric":
            check(policy)


@pytest.mark.parametrize("kind", list(KINDS))
def test_the_action_before_its_tanh(kind: str) -> None:
    obs = observations(16) * 0.1
    for head in HEADS[kind]:
        policy = make(kind, head, NetworkConfig((8,)), gain=1.0)
        assert policy.squashes == (kind in ("tanh-gaussian", "deterministic"))
        for noise in (None, policy.noise(np.random.default_rng(0), len(obs))):
            values = policy.unsquashed(obs, noise)
            if kind == "deterministic":  # its noise comes after the tanh
                noise = None
            raw = policy.raw(obs, noise)
            np.testing.assert_allclose(np.tanh(values) if policy.squashes else values, raw, atol=1e-6)


def test_every_algorithm_trains_a_kind_that_exists() -> None:
    for name, entry in config.REGISTRY.items():
        resolved = entry.config.resolve("Toy-v0", ACTION_DIM, 10**6)
        assert isinstance(resolved.head(), KINDS[resolved.kind].head), name


def test_layers_come_hidden_ones_first_and_in_order() -> None:
    """Starting weights are drawn layer by layer in this order: it is part of what a seed means."""
    head = HEADS["geometric"][1]
    network = NetworkConfig((9, 4, 6))
    assert policies.layers("geometric", head, network, 5, 3) == {
        "backbone.0": (9, 5),
        "backbone.1": (4, 9),
        "backbone.2": (6, 4),
        "direction": (4, 6),
        "concentration.0": (64, 6),
        "concentration.1": (1, 64),
        "scale": (3, 64),
    }
    assert list(policies.layers("geometric", head, network, 5, 3))[:3] == [f"backbone.{i}" for i in range(3)]
    found = policies.shapes("gaussian", HEADS["gaussian"][0], NetworkConfig((9,)), 5, 3, normalized=True)
    assert found == {
        "backbone.0.weight": (9, 5),
        "backbone.0.bias": (9,),
        "mean.weight": (3, 9),
        "mean.bias": (3,),
        "log_std": (3,),
        "obs_mean": (5,),
        "obs_std": (5,),
    }


@pytest.mark.parametrize("network", [NetworkConfig((6,), "elu"), NetworkConfig((4, 3), "silu", True)])
def test_inputs_are_never_written_over(network: NetworkConfig) -> None:
    """NumPy's operations write over what nobody else has, and only over that."""
    policy = make("geometric", HEADS["geometric"][1], network, normalized=True)
    tensors = {name: tensor.copy() for name, tensor in policy.tensors.items()}
    for obs in (observations(4), observations(4)[0]):
        before, noise = obs.copy(), policy.noise(np.random.default_rng(0), 4)
        given = noise if obs.ndim == 2 else noise[0]
        kept = given.copy()
        policy.raw(obs, given)
        np.testing.assert_array_equal(obs, before)
        np.testing.assert_array_equal(given, kept)
    for name, tensor in tensors.items():
        np.testing.assert_array_equal(policy.tensors[name], tensor)


def test_operations_of_numpy_at_their_edges() -> None:
    x = np.array([-1e4, -80.0, -1e-4, 0.0, 1e-4, 80.0, 1e4], np.float32)
    with np.errstate(all="raise", under="ignore"):
        np.testing.assert_allclose(NUMPY.elu(x.copy())[:3], [-1.0, -1.0, -9.9995e-5], rtol=1e-4)
        np.testing.assert_array_equal(NUMPY.elu(x.copy())[3:], x[3:])
        np.testing.assert_allclose(NUMPY.sigmoid(x.copy()), [0, 0, 0.499975, 0.5, 0.500025, 1, 1], atol=1e-7)
        np.testing.assert_allclose(policies.ACTIVATIONS["silu"](NUMPY, x.copy())[[0, 3, 6]], [0.0, 0.0, 1e4])
        np.testing.assert_allclose(NUMPY.softplus(x.copy())[[0, 3, 6]], [0.0, np.log(2.0), 1e4], rtol=1e-6)
    np.testing.assert_array_equal(NUMPY.normalize(np.zeros(3, np.float32)), np.zeros(3))
    np.testing.assert_array_equal(NUMPY.normalize(np.zeros((2, 3), np.float32)), np.zeros((2, 3)))
    assert np.isnan(NUMPY.normalize(np.full((1, 3), np.nan, np.float32))).all()  # and is not taken for zero
    assert np.isnan(NUMPY.normalize(np.full(3, np.nan, np.float32))).all()
    np.testing.assert_array_equal(NUMPY.layer_norm(np.full((2, 4), 3.0, np.float32)), np.zeros((2, 4)))


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"hidden_sizes": ()}, "hidden-sizes must be 1 to 16 widths greater than 0, got []"),
        ({"hidden_sizes": (8, 0)}, "hidden-sizes must be 1 to 16 widths greater than 0, got [8, 0]"),
        ({"hidden_sizes": (8,) * 17}, "hidden-sizes must be 1 to 16 widths"),
        ({"hidden_sizes": (8.5,)}, "hidden-sizes must be a list, each a whole number, got '(8.5,)'"),
        ({"hidden_sizes": 256}, "hidden-sizes must be a list, each a whole number, got '256'"),
        ({"activation": "rleu"}, "activation must be one of relu, tanh, elu, silu, got 'rleu'"),
        ({"layer_norm": "yes"}, "layer-norm must be true or false, got 'yes'"),
    ],
)
def test_networks_that_do_not_exist_are_refused(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        NetworkConfig(**given)
    assert sentence in str(caught.value)
    assert NetworkConfig(hidden_sizes=[8, np.int64(4)]).hidden_sizes == (8, 4)  # type: ignore[arg-type]


def test_a_new_activation_is_a_name_and_a_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mish, x * tanh(softplus(x)), is made of operations: all three libraries run it as it stands."""
    assert tuple(policies.ACTIVATIONS) == get_args(Activation)
    monkeypatch.setitem(policies.ACTIVATIONS, "mish", lambda nn, x: x * nn.tanh(nn.softplus(x)))
    network = NetworkConfig((6,))
    object.__setattr__(network, "activation", "mish")  # its name would stand in `Activation`
    policy = make("deterministic", HEADS["deterministic"][0], network)
    obs, tensors = observations(8), policy.tensors
    x = obs @ tensors["backbone.0.weight"].T + tensors["backbone.0.bias"]
    x = (x * np.tanh(np.log1p(np.exp(x)))) @ tensors["mean.weight"].T + tensors["mean.bias"]
    np.testing.assert_allclose(policy.raw(obs), np.tanh(x), atol=1e-5)
    np.testing.assert_allclose(by_jax(policy, obs, None), np.tanh(x), atol=1e-5)
    pytest.importorskip("onnxruntime")
    graph = export.onnx_model(policy).SerializeToString()
    assert export.check(graph, policy, stochastic=False) < 1e-5
