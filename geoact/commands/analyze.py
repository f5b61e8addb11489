"""`geoact analyze`."""

from dataclasses import KW_ONLY, dataclass
from pathlib import Path

from tyro.conf import Positional

from geoact.commands._options import Runs, check_seed, locate


@dataclass(frozen=True)
class Analyze:
    """Make one of the side studies: the geometry, its cost, and what trained policies do.

    Tables are written as Markdown and CSV, figures as PNG and SVG.
    """

    study: Positional[str]
    """concentration: how kappa concentrates the actions. entropy: the exact entropy and what stands in for it.
    sampling: time per sample beside von Mises-Fisher and tanh-Gaussian. cost: time per action and per update, and the
    number of parameters. saturation: gradients lost at the action limits, of given policies. length: how long
    actions are, of given policies. kappa: the concentration over states and over training, of given runs or policies.
    scales: the learned scale over given runs. stability: four forms of kappa, trained briefly (minutes). chance: what
    random actions earn on the paper's tasks (minutes)."""
    runs: Runs = ()
    """For saturation and length, runs or policies; for scales, runs or directories of them; for kappa, all of these,
    and the paper's published .pt files. Names in --runs-dir work, too."""
    _: KW_ONLY
    out: Path = Path("analysis")
    """Folder to write into."""
    seed: int = 0
    """Seed of everything random."""
    runs_dir: Path = Path("runs")
    """Where runs are looked for by name."""

    def __post_init__(self) -> None:
        check_seed(self.seed)


def run(options: Analyze) -> int:
    """Make the study and print the files."""
    from geoact.training import backend

    backend.set_threads(1)
    from geoact.analysis.studies import analyze

    runs = [locate(path, options.runs_dir) for path in options.runs]
    for path in analyze(options.study, Path(options.out), runs, options.seed):
        print(path)
    return 0
