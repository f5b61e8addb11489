"""A model card: one folder with a policy and all that a stranger needs to judge and use it.

    README.md           what it is, how well it acts, how it was trained, how to use it; with the hub's header
    policy.json         the policy itself (runtime.py)
    policy.safetensors
    results.json        a fresh evaluation, with every episode
    replay.mp4 or .gif  the beginning of an episode, where rendering works

The folder can be uploaded as it is; `push` does that through `huggingface_hub` (extra `hub`). Everything in a card
comes from the policy, its run directory and the evaluation made for it; nothing is asked for.
"""

import dataclasses
import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from geoact import __version__, runtime
from geoact.checks import differences
from geoact.config import RunConfig, defaults
from geoact.errors import InputError
from geoact.runtime import Policy, PolicySpec
from geoact.storage import files, runs

if TYPE_CHECKING:
    from geoact.environments import EnvFactory

REPLAYS = ("replay.mp4", "replay.gif")
"""In the order of liking: the hub shows an MP4, which needs one package more than a GIF."""
CARD_FILES = runtime.POLICY_FILES | {"README.md", "results.json", *REPLAYS}


@dataclasses.dataclass(frozen=True)
class Results:
    """A deterministic evaluation: the i-th episode starts from seed + i."""

    returns: list[float]
    lengths: list[int]
    seed: int
    libraries: dict[str, str | None]

    @property
    def mean(self) -> float:
        return float(np.mean(self.returns))

    @property
    def std(self) -> float:
        return float(np.std(self.returns))

    @property
    def summary(self) -> str:
        """`mean +/- std`, as the hub's leaderboards read it."""
        return f"{self.mean:.2f} +/- {self.std:.2f}"

    def to_json(self, spec: PolicySpec) -> dict[str, Any]:
        return {
            "env_id": spec.env,
            "algorithm": spec.algorithm,
            "mean_reward": self.mean,
            "std_reward": self.std,
            "n_eval_episodes": len(self.returns),
            "is_deterministic": True,
            "seeds": list(range(self.seed, self.seed + len(self.returns))),
            "returns": self.returns,
            "lengths": self.lengths,
            "geoact": __version__,
            "libraries": self.libraries,
        }


def write(
    source: Path,
    out: Path,
    episodes: int = 10,
    seed: int = 0,
    licence: str = "mit",
    env: str | None = None,
    trust_env: bool = False,
) -> Results:
    """Make the card of a run or of a policy folder; gives its evaluation.

    `env` and `trust_env`: where it is played, see `geoact.training.evaluation.environment_of`.
    """
    if episodes < 1:
        raise InputError(f"episodes must be greater than 0, got {episodes}")
    files.require_replaceable(out, CARD_FILES, "a model card")
    from geoact.training.evaluation import environment_of

    policy = runtime.load(source)
    make = environment_of(policy, env, trust_env)
    run = _run_of(source)
    with files.new_folder(out) as folder:
        # First, because a renderer can only be chosen before MuJoCo is imported.
        replay = _record(policy, env or policy.spec.env, folder, seed)
        results = _evaluate(policy, make, episodes, seed)
        policy.save(folder / "policy")
        for path in (folder / "policy").iterdir():
            path.rename(folder / path.name)
        (folder / "policy").rmdir()
        files.write_json(folder / "results.json", results.to_json(policy.spec))
        text = readme(policy, results, run, licence, out.name, replay)
        files.write_bytes(folder / "README.md", text.encode())
    return results


def _evaluate(policy: Policy, make: "EnvFactory", episodes: int, seed: int) -> Results:
    from geoact.training.evaluation import evaluate

    played = evaluate(policy, make, episodes, seed)
    return Results(played.returns.tolist(), played.lengths.tolist(), seed, runs.library_versions())


def _run_of(source: Path) -> runs.Run | None:
    """The run that a policy lies in."""
    for folder in (source, source.parent):
        if (folder / "run.json").is_file():
            return runs.Run(folder)
    return None


def _record(policy: Policy, env: str, folder: Path, seed: int) -> str | None:
    """Film an episode and give the file's name. A machine without a display driver still gets its card."""
    try:
        from geoact.report.video import record_small
    except ImportError:
        return None
    reason: Exception | None = None
    for name in REPLAYS:
        try:
            record_small(policy, env, folder / name, seed)
            return name
        except Exception as error:  # whatever a graphics driver raises
            reason = error
            (folder / name).unlink(missing_ok=True)
    print(f"note: the card has no replay: {reason}")
    return None


def command(config: RunConfig, action_dim: int) -> str:
    """The command line that trains this run again: what differs from the defaults."""
    default_settings = defaults(config.algorithm).resolve(
        config.env, action_dim, config.timesteps, config.num_envs
    )
    default = RunConfig(config.env, config.algorithm, default_settings)
    words = ["geoact", "train", config.env, "--algorithm", config.algorithm]
    words += ["--timesteps", str(config.timesteps), "--seed", str(config.seed)]
    for name, value in differences(config, default).items():
        if name in ("timesteps", "seed", "env_given"):
            continue  # said already, or no option
        group, dot, flag = name.removeprefix("settings.").replace("_", "-").rpartition(".")
        if isinstance(value, bool):
            words.append(f"--{group}{dot}{flag}" if value else f"--{group}{dot}no-{flag}")
        else:
            values = value if isinstance(value, tuple) else ("none" if value is None else value,)
            words += [f"--{group}{dot}{flag}", *map(str, values)]
    return shlex.join(words)


def readme(
    policy: Policy, results: Results, run: runs.Run | None, licence: str, name: str, replay: str | None
) -> str:
    """The card's text."""
    spec = policy.spec
    parts = [
        header(spec, results, licence),
        f"# {spec.algorithm} on {spec.env}\n",
        f"A policy for continuous control, made with geoact {__version__}. It takes observations of {spec.obs_dim} "
        f"numbers and gives actions of {spec.action_dim}, within the environment's limits.\n",
        "## How well it acts\n",
        f"Deterministic, {len(results.returns)} episodes of {spec.env}, seeds {results.seed} to "
        f"{results.seed + len(results.returns) - 1}: return **{results.summary}** (mean +/- standard deviation over "
        "episodes). Every episode is in `results.json`. One trained policy is one draw: other seeds of the same "
        "training give other policies.\n",
    ]
    if replay:
        parts.append(f"![The first seconds of the episode of seed {results.seed}]({replay})\n")
    parts += [
        "## How it was trained\n",
        _training(spec, run),
        "## How to use it\n",
        "```python\n"
        "from geoact import runtime  # needs NumPy and safetensors only\n\n"
        f'policy = runtime.load("{name}")\n'
        "action = policy(observation)\n"
        "```\n",
        f"`geoact evaluate {shlex.quote(name)}` repeats the evaluation.\n",
    ]
    return "\n".join(parts)


def header(spec: PolicySpec, results: Results, licence: str) -> str:
    """The hub's YAML header. Strings are written as JSON, which is YAML, so that no name can break it."""
    q = json.dumps
    return "\n".join(
        [
            "---",
            "library_name: geoact",
            f"license: {q(licence)}",
            "pipeline_tag: reinforcement-learning",
            "tags:",
            *(f"- {q(tag)}" for tag in (spec.env, "deep-reinforcement-learning", "reinforcement-learning")),
            *(f"- {q(tag)}" for tag in ("continuous-control", "geoact", spec.algorithm)),
            "model-index:",
            f"- name: {q(spec.algorithm)}",
            "  results:",
            "  - task:",
            "      type: reinforcement-learning",
            "      name: reinforcement-learning",
            "    dataset:",
            f"      name: {q(spec.env)}",
            f"      type: {q(spec.env)}",
            "    metrics:",
            "    - type: mean_reward",
            f"      value: {q(results.summary)}",
            "      name: mean_reward",
            "      verified: false",
            "---\n",
        ]
    )


def _training(spec: PolicySpec, run: runs.Run | None) -> str:
    if run is None:
        lines = [f"- {name.replace('_', ' ')}: {value}" for name, value in spec.about.items()]
        return "No run directory was at hand. The policy file says:\n\n" + "\n".join(lines) + "\n"
    config = run.config()
    at = spec.about.get("timesteps", config.timesteps)
    data = files.read_json(run.path / "run.json")
    versions = ", ".join(f"{name} {v}" for name, v in data.get("libraries", {}).items() if v)
    lines = [
        f"{at:,} transitions ({at // config.num_envs:,} vector steps of {config.num_envs} environments), seed "
        f"{config.seed}. The command:\n",
        f"```\n{command(config, spec.action_dim)}\n```\n",
    ]
    if at != config.timesteps:
        lines.append(f"The policy is the one that the run had after {at:,} of its transitions.\n")
    lines.append(f"Trained with geoact {data.get('version')} ({versions}).\n")
    lines.append(
        f"All settings:\n\n```json\n{json.dumps(dataclasses.asdict(config.settings), indent=2)}\n```\n"
    )
    return "\n".join(lines)


def push(folder: Path, repo: str) -> str:
    """Upload a card to the hub; gives its address."""
    try:
        from huggingface_hub import HfApi  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise InputError("--push needs an extra: pip install 'geoact[hub]'") from None
    api = HfApi()
    address = api.create_repo(repo, exist_ok=True)
    api.upload_folder(repo_id=repo, folder_path=folder, commit_message=f"Model card by geoact {__version__}")
    return str(address)
