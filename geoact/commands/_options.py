"""What several commands take, so that it is called the same everywhere."""

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import Positional, arg

from geoact.commands._arguments import Known
from geoact.config import REGISTRY, SEED_END
from geoact.errors import InputError

if TYPE_CHECKING:
    from geoact.experiments.sweep import Cluster

Score = Literal["eval", "training"]

Algorithm = Annotated[str, arg(help=f"One of {', '.join(REGISTRY)}."), Known(tuple(REGISTRY))]

Runs = Annotated[tuple[Path, ...], Positional, arg(metavar="RUN ...", help_behavior_hint="")]

RunsDir = Annotated[Path, arg(aliases=("--runs",))]
"""Where runs are read from; `--runs` is its older name."""


@dataclass(frozen=True)
class PolicyOptions:
    """Which policy to use."""

    path: Positional[Path]
    """A run (its directory, or its name in --runs-dir), a policy folder, or zoo:NAME."""
    _: KW_ONLY
    best: bool = False
    """Use the run's policy with the best evaluation instead of the newest."""
    runs_dir: Path = Path("runs")
    """Where runs are looked for by name."""

    def policy(self) -> Path:
        """Where the policy is."""
        found = locate(self.path, self.runs_dir)
        return found / "best" if self.best else found


@dataclass(frozen=True, kw_only=True)
class EpisodeOptions(PolicyOptions):
    """Which policy to play, where."""

    env: str | None = None
    """Play in this environment instead of the one that the policy was trained on."""
    trust_env: bool = False
    """Import the module that the policy's file names for its environment (module:Id): this runs that module's code."""
    seed: int = 0
    """Seed of the first episode; the i-th starts from seed + i."""


@dataclass(frozen=True, kw_only=True)
class ExecutorOptions:
    """Where many runs are made, and how many at a time."""

    jobs: int = 0
    """Runs at a time, each on a core of its own. 0: as many as there are cores."""
    executor: Literal["local", "ray"] = "local"
    """local: processes on this machine; ray: a Ray cluster (pip install 'geoact[ray]')."""
    address: str | None = None
    """Address of the Ray cluster, for example auto or 10.0.0.1:6379. Without it one is started here."""
    storage: str | None = None
    """Where Ray keeps copies of the runs: a path or an address that every machine can reach."""
    copy_every: float = 300.0
    """Seconds between these copies."""

    def __post_init__(self) -> None:
        if self.jobs < 0:
            raise InputError(f"jobs must be 0 or more, got {self.jobs}")
        if not self.copy_every > 0:
            raise InputError(f"copy-every must be greater than 0, got {self.copy_every}")

    def cluster(self) -> "Cluster | None":
        """The Ray cluster to run on; None on this machine."""
        from geoact.experiments.sweep import Cluster

        if self.executor == "local":
            return None
        return Cluster(self.address, self.storage, self.copy_every)


def locate(path: Path | str, runs_dir: Path | str) -> Path:
    """A run that is given by its directory or by its name; what does not exist is returned as it is."""
    path = Path(path)
    named = Path(runs_dir) / path
    return named if not path.exists() and named.exists() else path


def check_episodes(episodes: int, seed: int) -> None:
    """Refuse episodes that cannot be played."""
    if episodes < 1:
        raise InputError(f"episodes must be greater than 0, got {episodes}")
    check_seed(seed, episodes)


def check_seed(seed: int, count: int = 1) -> None:
    """Refuse a seed that a simulator would refuse, among `count` in a row."""
    if not 0 <= seed <= SEED_END - count:
        raise InputError(f"seed must be between 0 and {SEED_END - count}, got {seed}")
