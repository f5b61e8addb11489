"""`geoact resume`."""

from dataclasses import KW_ONLY, dataclass
from pathlib import Path

from tyro.conf import Positional

from geoact.commands._console import unbreakable
from geoact.commands._options import locate
from geoact.commands.train import finish


@dataclass(frozen=True)
class Resume:
    """Go on with a run that was interrupted, or extend a finished one.

    It goes on from the newest checkpoint that is whole, exactly as if it had never stopped.
    """

    run: Positional[Path]
    """The run's directory, or its name in --runs-dir."""
    _: KW_ONLY
    timesteps: int | None = None
    """A new total of transitions, larger than the run's, to extend it."""
    accept_loss: bool = False
    """Go on, not exactly, where rows of the replay are damaged in every checkpoint."""
    runs_dir: Path = Path("runs")
    """Where runs are looked for by name."""
    quiet: bool = False
    """Print nothing but the run's directory."""


def run(options: Resume) -> int:
    """Bring the run to its end."""
    with unbreakable():
        return _resume(options)


def _resume(options: Resume) -> int:
    from geoact.storage import runs
    from geoact.training import backend

    path = locate(options.run, options.runs_dir)
    run = runs.open_run(path)
    config = run.config()
    if options.timesteps is None and run.state() == "finished":
        print(
            f"{path} is finished ({config.timesteps:,} transitions); geoact resume {path} --timesteps N with a larger "
            "N extends it"
        )
        return 0
    backend.set_threads(config.threads)
    from geoact.training.resuming import resume

    session = resume(path, options.timesteps, accept_loss=options.accept_loss)
    if not options.quiet:
        print(f"going on at {session.timesteps:,} of {session.config.timesteps:,}")
    return finish(session, options.quiet)
