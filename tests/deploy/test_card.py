"""Model cards: complete, true, and in the hub's format."""

import dataclasses
import json
import sys
import types
from pathlib import Path

import numpy as np
import pytest

from geoact import cli, runtime
from geoact.commands import train
from geoact.config import REGISTRY, GACConfig, NetworkConfig, OffPolicyConfig, RunConfig
from geoact.deploy import card
from geoact.errors import InputError
from geoact.storage.runs import Run
from tests.test_cli import TINY

TRAIN = [
    "train",
    "tests.probes:Reach-v0",
    *TINY,
    "--evaluations",
    "2",
    "--eval-episodes",
    "1",
    "--threads",
    "1",
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("runs")
    assert cli.main([*TRAIN, "--radius", "0.8", "--seed", "3", "--runs-dir", str(folder)]) == 0
    return Run(next(folder.iterdir()))


def test_card_of_a_run(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "reach"
    assert cli.main(["card", str(run.path), "--out", str(out), "--episodes", "4", "--seed", "7"]) == 0
    assert {path.name for path in out.iterdir()} >= {
        "README.md",
        "policy.json",
        "policy.safetensors",
        "results.json",
    }
    assert not [path for path in out.iterdir() if path.is_dir()]
    original, shared = runtime.load(run.path), runtime.load(out)
    assert shared.spec == original.spec
    for name, tensor in original.tensors.items():
        np.testing.assert_array_equal(shared.tensors[name], tensor)

    results = json.loads((out / "results.json").read_text())
    # One step from a fixed observation: minus the squared distance from the target.
    by_hand = -float(np.sum((original(np.zeros(2)).astype(np.float64) - np.array([0.3, -0.4])) ** 2))
    np.testing.assert_allclose(results["returns"], [by_hand] * 4, rtol=1e-5)
    assert results["seeds"] == [7, 8, 9, 10]
    assert results["mean_reward"] == pytest.approx(by_hand, rel=1e-5)
    assert results["libraries"]["numpy"] == np.__version__

    text = (out / "README.md").read_text()
    assert f"{by_hand:.2f} +/- 0.00" in text
    assert "--radius 0.8" in text and "--seed 3" in text and "64 transitions" in text
    # A card can be made again in its place, but no other folder is overwritten.
    assert cli.main(["card", str(run.path), "--out", str(out), "--episodes", "1", "--best"]) == 0
    assert json.loads((out / "results.json").read_text())["n_eval_episodes"] == 1
    assert cli.main(["card", str(run.path), "--out", str(run.path)]) == 2
    assert (run.path / "run.json").is_file()


def test_card_of_a_policy_alone(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runtime.load(run.path).save(tmp_path / "policy")
    card.write(tmp_path / "policy", tmp_path / "card", episodes=1)
    text = (tmp_path / "card" / "README.md").read_text()
    assert "No run directory was at hand" in text and "- seed: 3" in text
    assert cli.main(["card", str(run.path), "--out", str(tmp_path / "other"), "--episodes", "0"]) == 2
    assert "episodes must be greater than 0" in capsys.readouterr().err


def test_header_is_what_the_hub_reads(run: Run, tmp_path: Path) -> None:
    hub = pytest.importorskip("huggingface_hub")
    results = card.write(run.path, tmp_path / "card", episodes=2)
    data = hub.ModelCard.load(tmp_path / "card" / "README.md").data
    assert data.library_name == "geoact"
    assert data.license == "mit"
    assert {"reinforcement-learning", "deep-reinforcement-learning", "tests.probes:Reach-v0"} <= set(
        data.tags
    )
    (result,) = data.eval_results
    assert (result.task_type, result.metric_type) == ("reinforcement-learning", "mean_reward")
    assert result.dataset_name == result.dataset_type == "tests.probes:Reach-v0"
    assert result.metric_value == results.summary


@pytest.mark.parametrize("algorithm", sorted(REGISTRY))
def test_the_command_trains_the_same_run(algorithm: str) -> None:
    """Parsed back by the command line it gives the configuration that it was made from."""
    default = REGISTRY[algorithm].config
    variants = [default, dataclasses.replace(default, actor=NetworkConfig((32, 16), "relu", layer_norm=True))]
    if isinstance(default, OffPolicyConfig):
        critic = dataclasses.replace(
            default.critic, hidden_sizes=(512,), layer_norm=not default.critic.layer_norm
        )
        variants.append(dataclasses.replace(default, critic=critic))
        variants.append(dataclasses.replace(default, cool_down=0.5))
    if isinstance(default, GACConfig):
        variants += [
            dataclasses.replace(default, exploration="entropy", slack=1),
            dataclasses.replace(
                default,
                exploration="kappa",
                normalize_mixture=False,
                concentration="published",
                actor_lr=1e-4,
            ),
        ]
    for settings in variants:
        resolved = settings.resolve("Walker2d-v5", 6, 240_000, 4)
        config = RunConfig(
            "Walker2d-v5", algorithm, resolved, timesteps=240_000, seed=42, num_envs=4, wandb=True
        )
        words = card.command(config, 6).split()
        assert words[:3] == ["geoact", "train", "Walker2d-v5"]
        assert "--planned-updates" not in words  # it follows from the length
        options = train.parse(words[2:])
        assert options.settings is not None
        assert options.settings.resolve("Walker2d-v5", 6, 240_000, 4) == resolved
        assert (options.algorithm, options.timesteps, options.seed) == (algorithm, 240_000, 42)
        assert (options.num_envs, options.wandb) == (4, True)


def test_push(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no network here: this shows only what `huggingface_hub` would be asked to do."""
    asked = []

    class HfApi:
        def create_repo(self, repo_id: str, *, exist_ok: bool) -> str:
            asked.append(("create", repo_id, exist_ok))
            return f"https://hub.example/{repo_id}"

        def upload_folder(self, *, repo_id: str, folder_path: Path, commit_message: str) -> None:
            asked.append(("upload", repo_id, sorted(path.name for path in folder_path.iterdir())))

    monkeypatch.setitem(sys.modules, "huggingface_hub", types.SimpleNamespace(HfApi=HfApi))
    out = tmp_path / "card"
    assert cli.main(["card", str(run.path), "--out", str(out), "--episodes", "1", "--push", "me/reach"]) == 0
    names = sorted(path.name for path in out.iterdir())
    assert asked == [("create", "me/reach", True), ("upload", "me/reach", names)]
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(InputError, match=r"geoact\[hub\]"):
        card.push(out, "me/reach")


def test_push_fits_the_real_library() -> None:
    """The arguments that the fake above takes are those of the real one."""
    import inspect

    hub = pytest.importorskip("huggingface_hub")
    assert {"repo_id", "exist_ok"} <= set(inspect.signature(hub.HfApi.create_repo).parameters)
    assert {"repo_id", "folder_path", "commit_message"} <= set(
        inspect.signature(hub.HfApi.upload_folder).parameters
    )


def test_replay(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An MP4 where it can be written, else a GIF."""

    def record(policy: runtime.Policy, env: str, out: Path, seed: int) -> None:
        assert (env, seed) == ("tests.probes:Reach-v0", 2)
        out.write_bytes(b"half")
        if out.suffix == ".mp4":
            raise InputError("no encoder")

    monkeypatch.setitem(sys.modules, "geoact.report.video", types.SimpleNamespace(record_small=record))
    card.write(run.path, tmp_path / "card", episodes=1, seed=2)
    assert [path.name for path in (tmp_path / "card").glob("replay.*")] == ["replay.gif"]
    assert "(replay.gif)" in (tmp_path / "card" / "README.md").read_text()


def test_without_rendering_the_card_is_made_all_the_same(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def record(*arguments: object, **options: object) -> None:
        raise RuntimeError("no display")

    monkeypatch.setitem(sys.modules, "geoact.report.video", types.SimpleNamespace(record_small=record))
    card.write(run.path, tmp_path / "card", episodes=1)
    assert not list((tmp_path / "card").glob("replay.*"))
    assert "replay.gif" not in (tmp_path / "card" / "README.md").read_text()
