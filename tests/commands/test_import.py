"""`geoact import`: from a published checkpoint to a policy that acts as its authors' did."""

import json
from pathlib import Path

import numpy as np
import pytest

from geoact import cli, runtime
from tests.deploy.test_published import REFERENCE, actor, checkpoint_value
from tests.deploy.torch_file import torch_save

PUBLISHED = {"HalfCheetah-v4": (12_617, 168), "Ant-v4": (5_759, 68)}
"""Mean and standard deviation over 10 episodes, seeds 0 to 9, from the paper."""


def write(
    path: Path, env: str, obs_dim: int, action_dim: int, limit: float = 1.0, **sizes: int
) -> dict[str, np.ndarray]:
    tensors = actor(obs_dim, action_dim, limit=limit, **sizes)
    args = {"env_id": env, "seed": 3, "num_envs": 8, "kappa_init": 2.0}
    path.write_bytes(torch_save(checkpoint_value(tensors, args, step=500_000)))
    return tensors


def by_hand(tensors: dict[str, np.ndarray], obs: np.ndarray, radius: float) -> np.ndarray:
    """The deterministic action: `bias + scale * clip(r * mu, -1, 1)`."""
    x = obs.astype(np.float64)
    for layer in ("backbone.0", "backbone.2"):
        x = np.maximum(tensors[f"{layer}.weight"].astype(np.float64) @ x + tensors[f"{layer}.bias"], 0.0)
    direction = tensors["mu_head.weight"].astype(np.float64) @ x + tensors["mu_head.bias"]
    clipped = np.clip(radius * direction / np.linalg.norm(direction), -1.0, 1.0)
    return tensors["action_bias"] + tensors["action_scale"] * clipped


@pytest.mark.parametrize(
    ("env", "obs_dim", "action_dim", "limit", "radius"),
    [
        ("HalfCheetah-v4", 17, 6, 1.0, 2.5),
        ("Ant-v4", 27, 8, 1.0, 1.0),
        ("Walker2d-v4", 17, 6, 1.0, 2.5),
        ("Humanoid-v4", 376, 17, 0.4, 2.5),
    ],
)
def test_import(env: str, obs_dim: int, action_dim: int, limit: float, radius: float, tmp_path: Path) -> None:
    """All four published environments, in a file of their format with other weights."""
    tensors = write(tmp_path / "file.pt", env, obs_dim, action_dim, limit)
    for extra, expected in (([], radius), (["--radius", "0.7"], 0.7)):
        out = tmp_path / "policy"
        assert cli.main(["import", str(tmp_path / "file.pt"), "--out", str(out), *extra]) == 0
        policy = runtime.load(out)
        assert (policy.spec.env, policy.spec.head.radius) == (env, expected)
        assert policy.spec.head.concentration == "published"
        assert not policy.spec.head.normalize_mixture
        assert policy.spec.about["vector_steps"] == 500_000
        obs = np.random.default_rng(0).standard_normal(obs_dim)
        np.testing.assert_allclose(policy(obs), by_hand(tensors, obs, expected), atol=1e-5)
        assert np.abs(policy(obs)).max() <= np.float32(limit)


def test_hidden_layers_of_other_widths(tmp_path: Path) -> None:
    """Policies have hidden layers of any width, so that a checkpoint with unequal ones is read as it is."""
    tensors = write(tmp_path / "file.pt", "Ant-v4", 27, 8, first=128, second=96)
    assert cli.main(["import", str(tmp_path / "file.pt"), "--out", str(tmp_path / "policy")]) == 0
    policy = runtime.load(tmp_path / "policy")
    assert policy.spec.network.hidden_sizes == (128, 96)
    obs = np.random.default_rng(0).standard_normal(27)
    np.testing.assert_allclose(policy(obs), by_hand(tensors, obs, 1.0), atol=1e-5)


def test_what_does_not_fit_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "file.pt"
    for sizes, extra, sentence in (
        ({"inner": 32}, [], "a hidden layer of 32 units below the concentration"),
        ({}, ["--radius", "0"], "radius must be greater than 0"),
        ({}, ["--radius", "nan"], "expected a finite number"),
    ):
        write(file, "Ant-v4", 27, 8, **sizes)
        assert cli.main(["import", str(file), "--out", str(tmp_path / "policy"), *extra]) == 2
        assert sentence in capsys.readouterr().err
        assert not (tmp_path / "policy").exists()
    file.write_bytes(b"no checkpoint")
    assert cli.main(["import", str(file), "--out", str(tmp_path / "policy")]) == 2
    assert "not a checkpoint" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(not REFERENCE.is_dir(), reason="the published checkpoints are not here")
@pytest.mark.parametrize("env", list(PUBLISHED))
def test_the_published_scores(env: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = REFERENCE / f"{env}_step_500000.pt"
    assert cli.main(["import", str(file), "--out", str(tmp_path / "policy")]) == 0
    capsys.readouterr()
    assert cli.main(["evaluate", str(tmp_path / "policy"), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    mean, std = PUBLISHED[env]
    assert (result["episodes"], result["seed"], result["stochastic"]) == (10, 0, False)
    assert abs(result["return_mean"] - mean) < 3 * std
