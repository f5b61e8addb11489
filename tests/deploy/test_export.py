"""ONNX graphs against the NumPy runtime. Needs the extra `onnx`."""

import dataclasses
import itertools
import json
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest

import geoact
from geoact import runtime
from geoact.deploy import export
from geoact.errors import InputError
from geoact.policies import KINDS, GeometricHead
from tests.policy_cases import (
    ACTION_DIM,
    BASELINES,
    DEFAULT,
    HEADS,
    HIGH,
    LOW,
    NETWORKS,
    OBS_DIM,
    baseline,
    by_hand,
    cases,
    geometric,
    make,
    observations,
)

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")


def run(model: bytes, **inputs: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, inputs)[0])


@pytest.mark.parametrize("concentration", get_args(get_type_hints(GeometricHead)["concentration"]))
@pytest.mark.parametrize("scale_max", [None, 3.5])
def test_equals_the_runtime(concentration: Any, scale_max: float | None) -> None:
    """On 10,000 random observations, every variant, deterministic and stochastic."""
    for slack, direction, mixture in itertools.product((0, 1, 2), (True, False), (True, False)):
        radius = None if scale_max else 2.5
        head = GeometricHead(radius, scale_max, slack, concentration, 0.73, direction, mixture)
        policy = geometric(head, gain=1.5)
        for stochastic in (False, True):
            model = export.onnx_model(policy, stochastic).SerializeToString()
            assert export.check(model, policy, stochastic) < 1e-4


@pytest.mark.parametrize("name", list(BASELINES))
def test_baselines_equal_the_runtime(name: str) -> None:
    policy = baseline(name)
    for stochastic in (False, True):
        model = export.onnx_model(policy, stochastic).SerializeToString()
        assert export.check(model, policy, stochastic) < 1e-5


def check(policy: runtime.Policy) -> None:
    """The graph against the equations in plain NumPy."""
    obs = observations(200)
    low, high = np.asarray(policy.spec.action_low), np.asarray(policy.spec.action_high)
    for noise in (None, policy.noise(np.random.default_rng(3), len(obs))):
        model = export.onnx_model(policy, noise is not None).SerializeToString()
        inputs = {"observation": obs} | ({} if noise is None else {"noise": noise})
        expected = low + (np.clip(by_hand(policy, obs, noise), -1.0, 1.0) + 1.0) * (high - low) / 2.0
        np.testing.assert_allclose(run(model, **inputs), expected, rtol=0, atol=3e-5)


@pytest.mark.parametrize("kind", list(KINDS))
def test_every_kind_and_network_equals_its_equations(kind: str) -> None:
    """Activations, layer norm, one to three layers, normalised observations: each once, the heads in turn."""
    for head, network, normalized in cases(kind):
        check(make(kind, head, network, normalized))


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(KINDS))
def test_every_network_with_every_head(kind: str) -> None:
    for head, network, normalized in itertools.product(HEADS[kind], NETWORKS, (False, True)):
        check(make(kind, head, network, normalized))


def test_normalisation_is_inside_the_graph() -> None:
    """A constant dimension, whose deviation is next to nothing, and an observation far off: finite, as the runtime."""
    policy = make("tanh-gaussian", HEADS["tanh-gaussian"][0], NETWORKS[0], normalized=True)
    policy.tensors["obs_std"][2] = 1e-4
    obs = observations(50) * 1e6
    obs[:, 2] = policy.tensors["obs_mean"][2]
    actions = run(export.onnx_model(policy).SerializeToString(), observation=obs)
    assert np.isfinite(actions).all()
    np.testing.assert_allclose(actions, policy(obs), atol=1e-5)


def test_the_action_is_the_environments() -> None:
    """Clipped, rescaled, one observation as a batch of one; noise of any length is put on the sphere."""
    policy = geometric(DEFAULT)
    obs = np.random.default_rng(0).standard_normal((1, OBS_DIM)).astype(np.float32)
    action = run(export.onnx_model(policy).SerializeToString(), observation=obs)
    assert action.shape == (1, ACTION_DIM)
    np.testing.assert_allclose(action, policy(obs), atol=1e-5)
    noise = policy.noise(np.random.default_rng(1), 1)
    model = export.onnx_model(policy, stochastic=True).SerializeToString()
    action = run(model, observation=obs, noise=7.0 * noise)
    np.testing.assert_allclose(action, policy(obs, np.random.default_rng(1)), atol=1e-5)
    many = np.random.default_rng(2).standard_normal((1000, OBS_DIM)).astype(np.float32) * 10
    actions = run(export.onnx_model(policy).SerializeToString(), observation=many)
    assert (actions >= np.asarray(LOW, np.float32)).all()
    assert (actions <= np.asarray(HIGH, np.float32)).all()


def test_a_zero_direction_gives_the_middle() -> None:
    policy = geometric(DEFAULT)
    policy.tensors["direction.weight"][:] = 0.0
    policy.tensors["direction.bias"][:] = 0.0
    action = run(export.onnx_model(policy).SerializeToString(), observation=np.ones((2, OBS_DIM), np.float32))
    np.testing.assert_allclose(action, [(np.asarray(LOW) + np.asarray(HIGH)) / 2] * 2, atol=1e-6)


def test_file_and_metadata(tmp_path: Path) -> None:
    policy = geometric(dataclasses.replace(DEFAULT, slack=1))
    for stochastic in (False, True):
        difference = export.write_onnx(policy, tmp_path / "policy.onnx", stochastic)
        assert 0.0 <= difference < 1e-4
        model = onnx.load(tmp_path / "policy.onnx")
        facts = {entry.key: entry.value for entry in model.metadata_props}
        assert facts["geoact_version"] == geoact.__version__ == model.producer_version
        assert facts["environment"] == "Toy-v0"
        assert facts["policy"] == ("stochastic" if stochastic else "deterministic")
        assert (facts["observation_size"], facts["action_size"]) == ("5", "3")
        assert json.loads(facts["action_low"]) == list(LOW)
        assert json.loads(facts["action_high"]) == list(HIGH)
        assert [value.name for value in model.graph.input] == ["observation", "noise"][: 1 + stochastic]
    assert [path.name for path in tmp_path.iterdir()] == ["policy.onnx"]


def test_a_wrong_graph_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = geometric(DEFAULT)
    right = export.onnx_model
    wrong = runtime.Policy(policy.spec, {name: tensor * 1.01 for name, tensor in policy.tensors.items()})
    monkeypatch.setattr(export, "onnx_model", lambda policy, stochastic: right(wrong, stochastic))
    with pytest.raises(InputError, match="nothing was written"):
        export.write_onnx(policy, tmp_path / "policy.onnx")
    assert not list(tmp_path.iterdir())
