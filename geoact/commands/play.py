"""`geoact play`."""

from dataclasses import dataclass
from pathlib import Path

from geoact.commands._options import EpisodeOptions, check_episodes, locate


@dataclass(frozen=True, kw_only=True)
class Play(EpisodeOptions):
    """Record a clip of a trained policy.

    The policy acts without exploration noise.
    """

    episodes: int = 1
    """Number of episodes."""
    out: Path | None = None
    """Clip to write (.gif or .mp4). Without it: video.gif in the run, where the report finds it."""
    seconds: float | None = None
    """End the clip after this many seconds."""

    def __post_init__(self) -> None:
        check_episodes(self.episodes, self.seed)


def run(options: Play) -> int:
    """Play, record, and print the returns."""
    from geoact import runtime
    from geoact.report import video
    from geoact.training.evaluation import environment_of

    policy = runtime.load(options.policy())
    environment_of(policy, options.env, options.trust_env)  # refused before anything is drawn
    out = options.out or _home(locate(options.path, options.runs_dir)) / "video.gif"
    returns = video.record(
        policy, options.env or policy.spec.env, Path(out), options.episodes, options.seed, options.seconds
    )
    for number, value in enumerate(returns):
        print(f"episode {number + 1} (seed {options.seed + number}): return {value:,.1f}")
    print(f"video: {out}")
    return 0


def _home(path: Path) -> Path:
    """The folder for a clip: the run that the policy is of (never within its policy, which is a policy's files
    alone), else the policy's folder."""
    folder = path if path.is_dir() else path.parent
    return folder.parent if (folder.parent / "run.json").is_file() else folder
