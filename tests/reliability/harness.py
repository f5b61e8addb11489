"""Real training processes on toy environments, and what two runs that should be equal are compared by."""

import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from geoact import checks, runtime
from geoact.config import RunConfig, defaults
from geoact.storage import checkpoints
from geoact.storage.runs import CLOCK_KEYS, Run, find_runs
from geoact.training.replay import Replay

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
CLOCK_FACTS = ("elapsed", "checkpoint_seconds", "metrics_size")
BUFFER = 1500

_SMALL: dict[str, Any] = {"actor": {"hidden_sizes": (16,)}}
_OFF_POLICY: dict[str, Any] = _SMALL | {
    "critic": {"hidden_sizes": (16,)},
    "batch_size": 16,
    "buffer_size": BUFFER,
    "learning_starts": 50,
}
_INGREDIENTS: dict[str, Any] = {
    "critic": {
        "hidden_sizes": (16,),
        "count": 3,
        "target_subset": 2,
        "actor_value": "mean",
        "layer_norm": True,
        "dropout": 0.01,
        "loss": "hl-gauss",
        "bins": 21,
    },
    "tau": 0.1,
    "updates_per_step": 2,
    "n_step": 3,
    "replay_recency": 2.0,
    "noise_spread": 2.0,
    "normalize_obs": True,
    "normalize_reward": True,
    "policy_delay": 3,
    "policy_tau": 0.1,
    "practice_share": 0.3,
    "practice_steps": 15,
    "weight_decay": 0.01,
    "actor_lr_halving": 50,
    "critic_lr_halving": 50,
    "cool_down": 0.5,
}
_ENTROPY: dict[str, Any] = {"center_entropy": True, "alpha_init": 0.1, "alpha_unit": "reward"}
SETTINGS: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("gac", "sac", "td3"), _OFF_POLICY),
    "ppo": _SMALL | {"value_hidden_sizes": (16,), "rollout": 128, "epochs": 2, "minibatches": 4},
    "gac+": _OFF_POLICY
    | _INGREDIENTS
    | _ENTROPY
    | {"exploration": "entropy", "slack": 1, "entropy_of": "action", "clip_gradient": "inward"},
    "sac+": _OFF_POLICY | _INGREDIENTS | _ENTROPY,
    "td3+": _OFF_POLICY | _INGREDIENTS,
}
"""Small settings for each algorithm, so that a whole run takes seconds; with a +, every ingredient of the learners."""
COMMON: dict[str, Any] = {"num_envs": 4, "evaluations": 4, "eval_episodes": 2, "log_points": 40}


def config(algorithm: str = "gac", env: str = "toys:Toy-v0", timesteps: int = 2000, **more: Any) -> RunConfig:
    """A small run."""
    name = algorithm.rstrip("+")
    settings = checks.changed(defaults(name), SETTINGS[algorithm], name)
    return RunConfig(env=env, algorithm=name, settings=settings, timesteps=timesteps, **(COMMON | more))


def environment() -> dict[str, str]:
    """Variables for a training process: this source tree and the toys importable, compiled programs shared."""
    paths = [str(ROOT), str(HERE)]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths)}


def geoact(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "geoact.cli", *arguments]


def train_command(runs_dir: Path, algorithm: str = "gac", env: str = "toys:Toy-v0", *more: str) -> list[str]:
    """The same run from the command line, on one thread."""
    options = COMMON | {"threads": 1, "algorithm": algorithm.rstrip("+"), "runs_dir": runs_dir}
    return geoact("train", env, *flags(options | SETTINGS[algorithm]), *more)


def flags(options: dict[str, Any], prefix: str = "--") -> list[str]:
    """Options as words on the command line; groups of settings have dotted names."""
    words: list[str] = []
    for name, value in options.items():
        flag = prefix + name.replace("_", "-")
        if isinstance(value, dict):
            words += flags(value, f"{flag}.")
        elif isinstance(value, bool):
            assert value
            words.append(flag)
        else:
            words += [flag, *map(str, value if isinstance(value, tuple) else (value,))]
    return words


def run_to_end(
    command: list[str], timeout: float = 600, **variables: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env=environment() | variables, capture_output=True, text=True, timeout=timeout, check=False
    )


def begin(command: list[str], **variables: str) -> subprocess.Popen[bytes]:
    """A training in a process of its own, its output thrown away."""
    return subprocess.Popen(
        command, env=environment() | variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def only_run(runs_dir: Path) -> Run:
    (run,) = find_runs(runs_dir)
    return run


def wait_for_run(runs_dir: Path, process: subprocess.Popen[bytes], timeout: float = 600) -> Run:
    """The run that a process has just made."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if runs_dir.is_dir() and (found := list(find_runs(runs_dir))):
            return found[0]
        assert process.poll() is None, f"it ended before it made a run, with code {process.returncode}"
        time.sleep(0.02)
    process.kill()
    raise AssertionError("no run appeared")


def wait_for_step(run: Run, process: subprocess.Popen[bytes], step: int, timeout: float = 600) -> None:
    """Wait until a run has logged this step, or its process has ended."""
    deadline = time.monotonic() + timeout
    while process.poll() is None and run.status()["timesteps"] < step:
        if time.monotonic() >= deadline:
            process.kill()
            raise AssertionError(f"the run did not reach {step}")
        time.sleep(0.005)


def wait_for_end(process: subprocess.Popen[bytes], timeout: float = 600) -> int:
    """The exit code of a process that was asked to end; one that does not is killed."""
    try:
        return process.wait(timeout)
    finally:
        process.kill()


def fingerprint(run: Run) -> str:
    """A hash of all that learning depends on at the end of a run, and of its metrics; not of the clock."""
    spec = runtime.load(run.path).spec
    replay = None if spec.algorithm == "ppo" else Replay(BUFFER, spec.obs_dim, spec.action_dim)
    loaded = checkpoints.load_newest(run.path, replay, print)
    assert loaded is not None
    digest = hashlib.sha256()
    for name, array in sorted(loaded.snapshot.arrays.items()):
        digest.update(f"{name} {array.dtype} {array.shape}".encode() + array.tobytes())
    facts = {k: v for k, v in loaded.snapshot.facts.items() if k not in CLOCK_FACTS}
    facts["mark"] = facts["mark"][1]
    digest.update(json.dumps(facts, sort_keys=True).encode())
    if replay is not None:
        digest.update(replay.rows[: len(replay)].tobytes())
    digest.update(json.dumps(metrics(run), sort_keys=True).encode())
    for name in ("policy", "best"):
        digest.update((run.path / name / "policy.safetensors").read_bytes())
    return digest.hexdigest()


def metrics(run: Run) -> list[dict[str, float]]:
    return [{k: v for k, v in row.items() if k not in CLOCK_KEYS} for row in run.metrics()]
