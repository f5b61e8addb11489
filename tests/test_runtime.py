"""The NumPy runtime: equal to the JAX policies, alone, quick, and strict about what it is given."""

import dataclasses
import functools
import itertools
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest

import geoact
from geoact import runtime
from geoact.errors import FileFormatError, InputError
from geoact.policies import GeometricHead, NetworkConfig
from geoact.runtime import Policy
from tests.policy_cases import BASELINES, DEFAULT, HIGH, LOW, OBS_DIM, baseline, by_jax, geometric


def to_environment(raw: np.ndarray) -> np.ndarray:
    """Clipped and rescaled, in float64."""
    low, high = np.asarray(LOW), np.asarray(HIGH)
    return low + (np.clip(raw, -1.0, 1.0) + 1.0) * (high - low) / 2.0


@pytest.mark.parametrize("concentration", get_args(get_type_hints(GeometricHead)["concentration"]))
@pytest.mark.parametrize("scale_max", [None, 3.5])
@pytest.mark.parametrize("slack", [0, 1, 2])
def test_equals_the_jax_policy(concentration: Any, scale_max: float | None, slack: int) -> None:
    rng = np.random.default_rng(0)
    obs = (rng.standard_normal((64, OBS_DIM)) * np.logspace(-2, 1, 64)[:, None]).astype(np.float32)
    for direction, mixture in itertools.product((True, False), (True, False)):
        radius = None if scale_max else 2.5
        policy = geometric(GeometricHead(radius, scale_max, slack, concentration, 0.73, direction, mixture))
        noise = policy.noise(np.random.default_rng(7), len(obs))
        np.testing.assert_allclose(np.linalg.norm(noise, axis=1), 1.0, atol=1e-6)
        for given, generator in ((None, None), (noise, np.random.default_rng(7))):
            raw = by_jax(policy, obs, given)
            # Without normalised directions actions are as large as the observations: relative there.
            np.testing.assert_allclose(policy.raw(obs, given), raw, rtol=1e-5, atol=1e-5)
            actions = policy(obs, generator)
            np.testing.assert_allclose(actions, to_environment(raw), rtol=0, atol=1e-5)
            for i in range(0, 64, 9):
                one = policy.raw(obs[i], None if given is None else given[i])
                np.testing.assert_allclose(one, raw[i], rtol=1e-5, atol=1e-5)
        assert np.abs(actions - policy(obs)).max() > 0.01
        np.testing.assert_allclose(policy(obs[3]), policy(obs)[3], rtol=0, atol=1e-5)
        np.testing.assert_allclose(
            policy(obs[3], np.random.default_rng(1)),
            to_environment(policy.raw(obs[3:4], policy.noise(np.random.default_rng(1), 1)))[0],
            rtol=0,
            atol=1e-5,
        )


@pytest.mark.parametrize("name", list(BASELINES))
def test_baselines_equal_the_jax_policies(name: str, tmp_path: Path) -> None:
    policy = baseline(name)
    policy = runtime.load(policy.save(tmp_path / "policy"))
    rng = np.random.default_rng(0)
    obs = (rng.standard_normal((64, OBS_DIM)) * np.logspace(-2, 1, 64)[:, None]).astype(np.float32)
    noise = policy.noise(np.random.default_rng(7), len(obs))
    for given, generator in ((None, None), (noise, np.random.default_rng(7))):
        raw = by_jax(policy, obs, given)
        np.testing.assert_allclose(policy.raw(obs, given), raw, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(policy(obs, generator), to_environment(raw), rtol=0, atol=1e-5)
        for i in range(0, 64, 9):
            one = policy.raw(obs[i], None if given is None else given[i])
            np.testing.assert_allclose(one, raw[i], rtol=1e-5, atol=1e-5)
    assert policy(obs[0], np.random.default_rng(0)).shape == (len(LOW),)
    assert _cost(policy, obs[0], np.random.default_rng(0)) < 8


def test_published_form_by_hand() -> None:
    """kappa = softplus(20 sigmoid(k/5) - 10 + ln kappa0) + 1e-6, w = sigmoid(min(kappa, 20) / 2), no normalising."""
    head = dataclasses.replace(
        DEFAULT, concentration="published", normalize_mixture=False, radius=1.0, kappa_init=3.0
    )
    for raw in (-40.0, -1.0, 0.5, 40.0):
        policy = geometric(head)
        tensors = {name: np.zeros_like(tensor) for name, tensor in policy.tensors.items()}
        tensors["direction.bias"][:] = (0.0, 0.6, 0.8)
        tensors["concentration.1.bias"][:] = raw
        kappa = np.log1p(np.exp(20.0 / (1.0 + np.exp(-raw / 5.0)) - 10.0 + np.log(3.0))) + 1e-6
        weight = 1.0 / (1.0 + np.exp(-min(kappa, 20.0) / 2.0))
        noise = np.array([[1.0, 0.0, 0.0]], np.float32)
        by_hand = [[1.0 - weight, 0.6 * weight, 0.8 * weight]]
        policy.tensors = tensors
        np.testing.assert_allclose(policy.raw(np.zeros((1, 5), np.float32), noise), by_hand, atol=1e-6)
        np.testing.assert_allclose(policy.raw(np.zeros(5, np.float32), noise[0]), by_hand[0], atol=1e-6)
        assert policy.spec.head.kappa_init == 3.0


def test_a_zero_direction_is_no_accident() -> None:
    """Where the direction head gives zero, the action is zero, and with noise it follows the noise alone."""
    for head in (DEFAULT, dataclasses.replace(DEFAULT, radius=None, scale_max=3.5, slack=1)):
        policy = geometric(head)
        policy.tensors["direction.weight"][:] = 0.0
        policy.tensors["direction.bias"][:] = 0.0
        middle = (np.asarray(LOW) + np.asarray(HIGH)) / 2
        np.testing.assert_allclose(policy(np.ones(5)), middle, atol=1e-6)
        np.testing.assert_allclose(policy(np.ones((2, 5))), [middle, middle], atol=1e-6)
        noise = policy.noise(np.random.default_rng(0), 2)
        obs = np.ones((2, 5), np.float32)
        raw = by_jax(policy, obs, noise)
        np.testing.assert_allclose(policy.raw(obs, noise), raw, atol=1e-5)
        assert np.abs(raw).max() > 0.1


def test_actions_never_leave_the_limits() -> None:
    policy = geometric(DEFAULT)
    policy = Policy(dataclasses.replace(policy.spec, action_low=(-0.1, -0.3, 0.1), action_high=(0.7, 0.4, 1e6)),
                    policy.tensors)  # fmt: skip
    actions = policy(np.random.default_rng(0).standard_normal((1000, 5)), np.random.default_rng(0))
    assert actions.dtype == np.float32
    assert (actions >= np.asarray(policy.spec.action_low, np.float32)).all()
    assert (actions <= np.asarray(policy.spec.action_high, np.float32)).all()
    assert (actions == np.asarray(policy.spec.action_high, np.float32)).any(axis=0).all()


@pytest.mark.parametrize("shape", [(), (4,), (6,), (2, 4), (5, 2), (1, 1, 5), (0,)])
def test_wrong_shapes_are_refused(shape: tuple[int, ...]) -> None:
    policy = geometric(DEFAULT)
    with pytest.raises(InputError, match=r"observations of 5 numbers.*shape") as caught:
        policy(np.zeros(shape))
    assert str(shape) in str(caught.value)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_non_finite_observations_are_refused(bad: float) -> None:
    policy = geometric(DEFAULT)
    for obs in (np.zeros(5), np.zeros((3, 5))):
        obs[..., 2] = bad
        with pytest.raises(InputError, match="NaN or an infinity"):
            policy(obs)


@pytest.mark.filterwarnings("ignore:overflow")
def test_large_observations_are_not_mistaken_for_infinite_ones() -> None:
    policy = geometric(DEFAULT)
    assert np.isfinite(policy(np.full(5, 1e25))).all()


def test_inputs_are_left_alone() -> None:
    policy = geometric(DEFAULT)
    obs = np.ones(5, np.float32)
    first = policy(obs, np.random.default_rng(0))
    second = policy(-obs, np.random.default_rng(0))
    assert (obs == 1.0).all()
    assert not np.shares_memory(first, second)
    np.testing.assert_array_equal(first, policy(obs, np.random.default_rng(0)))


def test_save_and_load(tmp_path: Path) -> None:
    for scale_max, concentration in ((None, "softplus"), (3.5, "free"), (None, "fixed")):
        head = GeometricHead(None if scale_max else 1.5, scale_max, 1, concentration, 0.6, True, True)  # type: ignore[arg-type]
        policy = geometric(head)
        policy.save(tmp_path / "policy")
        assert sorted(path.name for path in (tmp_path / "policy").iterdir()) == [
            "policy.json",
            "policy.safetensors",
        ]
        for path in (tmp_path, tmp_path / "policy", tmp_path / "policy" / "policy.json"):
            again = runtime.load(path)
            assert again.spec == policy.spec
            obs = np.random.default_rng(0).standard_normal((10, 5))
            np.testing.assert_array_equal(
                again(obs, np.random.default_rng(1)), policy(obs, np.random.default_rng(1))
            )
    content = bytearray((tmp_path / "policy" / "policy.safetensors").read_bytes())
    content[-1] ^= 1
    (tmp_path / "policy" / "policy.safetensors").write_bytes(content)
    with pytest.raises(FileFormatError, match="SHA-256"):
        runtime.load(tmp_path)
    with pytest.raises(InputError, match="does not exist"):
        runtime.load(tmp_path / "nowhere")


def test_saving_destroys_nothing(tmp_path: Path) -> None:
    policy = geometric(DEFAULT)
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match=r"thesis.tex.*would be lost"):
        policy.save(tmp_path)
    with pytest.raises(InputError, match="is a file"):
        policy.save(tmp_path / "thesis.tex")
    assert (tmp_path / "thesis.tex").read_text() == "years of work"
    policy.save(tmp_path / "policy")
    policy.save(tmp_path / "policy")


ONLY_NUMPY = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in {*sys.stdlib_module_names, "numpy", "safetensors", "geoact"}:
            raise ModuleNotFoundError(f"{name} is not on the robot")

sys.meta_path.insert(0, Refuse())
try:
    import jax
except ModuleNotFoundError:
    pass
else:
    raise SystemExit("the blocker does not block")
"""
"""Put before a program, it leaves it the standard library, NumPy, safetensors and this package."""

ACT = """
import numpy as np
import geoact
from geoact import runtime

policy = runtime.load(sys.argv[1])
print(*policy(np.ones(5)), *policy(np.ones(5), np.random.default_rng(0)))
"""


def test_needs_numpy_and_safetensors_only(tmp_path: Path) -> None:
    policy = geometric(DEFAULT)
    policy.save(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", ONLY_NUMPY + ACT, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    obs = np.ones(5)
    np.testing.assert_allclose(
        [float(word) for word in done.stdout.split()],
        [*policy(obs), *policy(obs, np.random.default_rng(0))],
        atol=1e-6,
    )


@pytest.mark.slow  # a time, so it wants a machine that is not busy
@pytest.mark.parametrize("head", [DEFAULT, dataclasses.replace(DEFAULT, radius=None, scale_max=3.5)])
def test_one_observation_is_quick(head: GeometricHead) -> None:
    """At most 40 microseconds at HalfCheetah's sizes, deterministic or not: the best of many short bursts, which a
    busy machine disturbs little."""
    policy = geometric(head, NetworkConfig(), 17, 6, gain=1.0)
    obs = np.random.default_rng(0).standard_normal(17)
    for rng in (None, np.random.default_rng(0)):
        best = min(_burst(functools.partial(policy, obs, rng)) for _ in range(200))
        assert best < 40e-6, f"{best * 1e6:.1f} microseconds"


def _cost(policy: Policy, obs: np.ndarray, rng: np.random.Generator | None) -> float:
    """How many times as long an action takes as the bare products of its network, in turns, on a busy machine, too.

    The products take 3 to 5 microseconds on an idle core, so 8 times them is less than the 40 of the test above.
    """
    products = [
        (np.ones(len(matrix), np.float32), matrix) for matrix in policy.tensors.values() if matrix.ndim == 2
    ]

    def bare() -> None:
        for vector, matrix in products:
            vector @ matrix  # pyright: ignore[reportUnusedExpression]

    pairs = [(_burst(lambda: policy(obs, rng)), _burst(bare)) for _ in range(200)]
    action, least = (min(times) for times in zip(*pairs))
    return action / least


def _burst(call: Callable[[], object], calls: int = 10) -> float:
    started = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - started) / calls


# What a file says


def rewrite(folder: Path, **changes: Any) -> Path:
    """A policy's policy.json with some entries changed."""
    path = folder / "policy.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return folder


def test_an_unknown_kind_is_refused(tmp_path: Path) -> None:
    folder = rewrite(geometric(DEFAULT).save(tmp_path / "policy"), kind="geometirc")
    with pytest.raises(FileFormatError, match="unknown kind of policy 'geometirc': did you mean geometric"):
        runtime.load(folder)


@pytest.mark.parametrize("load", [runtime.load, geoact.load])
def test_an_unknown_algorithm_is_refused(load: Any, tmp_path: Path) -> None:
    """It is never read as GAC, whatever its kind of policy is."""
    folder = rewrite(geometric(DEFAULT).save(tmp_path / "policy"), algorithm="gca")
    with pytest.raises(FileFormatError, match="unknown algorithm 'gca': did you mean gac"):
        load(folder)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"network": {"hidden_sizes": [32, 32], "activation": "rleu"}}, "activation must be one of"),
        ({"network": {"hidden_sizes": [32, 31]}}, "does not fit its policy.json"),
        ({"network": {"hidden_sizes": [32]}}, "does not fit its policy.json"),
        ({"network": {"hidden_sizes": [32, 32], "surprise": 1}}, "surprise"),
        ({"network": None}, "is damaged"),
        ({"obs_clip": 10.0}, "does not fit its policy.json"),
        ({"obs_clip": -1.0}, "obs_clip is -1.0"),
        ({"obs_clip": "10"}, "does not fit its policy.json"),
        ({"head": {}}, "is damaged"),
        ({"obs_dim": 5.0}, "is damaged"),
        ({"obs_dim": True}, "is damaged"),
        ({"action_low": [-1.0, -0.4]}, "not a box"),
        ({"action_low": [1.0, 0.4, 0.7]}, "not a box"),
        ({"schema": 3, "version": "9.0"}, r"newer geoact \(9.0, schema 3.*upgrade"),
        ({"schema": 0}, "schema 0"),
        ({"schema": "2"}, "schema '2'"),
        ({"format": "other"}, "is not a geoact policy"),
    ],
)
def test_a_file_that_says_something_else_is_refused(changes: Any, sentence: str, tmp_path: Path) -> None:
    folder = rewrite(geometric(DEFAULT).save(tmp_path / "policy"), **changes)
    with pytest.raises(FileFormatError, match=sentence):
        runtime.load(folder)


@pytest.mark.parametrize("name", list(BASELINES))
def test_schema_1_is_read(name: str, tmp_path: Path) -> None:
    """It had two hidden layers of one width, and the bound of normalised observations in PPO's head."""
    policy = baseline(name)
    folder = policy.save(tmp_path / "policy")
    data = json.loads((folder / "policy.json").read_text())
    del data["network"]
    clip = data.pop("obs_clip")
    data["head"] |= {"obs_clip": clip} if policy.spec.kind == "gaussian" else {}
    (folder / "policy.json").write_text(json.dumps(data | {"schema": 1, "version": "0.1.0"}))
    again = runtime.load(folder)
    assert again.spec == policy.spec
    obs = np.ones((2, 5), np.float32)
    np.testing.assert_array_equal(again(obs), policy(obs))


def test_numbers_that_are_none_are_refused(tmp_path: Path) -> None:
    policy = geometric(DEFAULT)
    policy.tensors["direction.bias"][1] = np.nan
    with pytest.raises(FileFormatError, match=r"direction\.bias has a NaN or an infinity in it"):
        runtime.load(policy.save(tmp_path / "policy"))
