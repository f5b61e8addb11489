"""`geoact train`: the run's options and the algorithm's settings in one line, or from a file."""

import dataclasses
import sys
from dataclasses import KW_ONLY, dataclass
from inspect import cleandoc
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from tyro.conf import Positional, Suppress, UseAppendAction

from geoact.commands import _arguments
from geoact.commands._arguments import Flags
from geoact.commands._console import agrees, unbreakable
from geoact.commands._options import Algorithm
from geoact.config import (
    DEFAULT_ALGORITHM,
    REGISTRY,
    AlgorithmConfig,
    GACConfig,
    RunConfig,
    RunOptions,
    defaults,
    option_values,
)
from geoact.errors import STOPPED, InputError, TrainingFailed
from geoact.experiments import run_file
from geoact.experiments.run_file import RunFile

if TYPE_CHECKING:
    from geoact.training.session import Session

CONFIG_HELP = (
    "Start from the configuration in this file: the run.json of a run, or TOML as --print-config writes it. Other "
    "options change it."
)


@dataclass(frozen=True)
class Train(RunOptions):
    """Train a policy on an environment.

    The run is a directory of its own, with its metrics, checkpoints and policies. Ctrl-C stops it with everything
    saved, and geoact resume goes on with it.
    """

    env: Positional[str]
    """A Gymnasium id (HalfCheetah-v5), a DMControl task (walker-run) or one of your own (my_package:MyEnv-v0).
    geoact envs lists some."""
    _: KW_ONLY
    algorithm: Algorithm = DEFAULT_ALGORITHM
    settings: Suppress[AlgorithmConfig | None] = None
    """The algorithm's settings; its defaults where there are none."""
    runs_dir: Path = Path("runs")
    """Directory in which the run's own is made."""
    tag: UseAppendAction[tuple[str, ...]] = ()
    """A word to find the run by (geoact list --tag); may be given several times."""
    note: str = ""
    """A remark to keep with the run."""
    quiet: bool = False
    """Print nothing but the run's directory."""
    print_config: bool = False
    """Print the whole configuration as TOML, for --config, and train nothing."""

    def config(self) -> RunConfig:
        """The run that these options describe."""
        settings = self.settings if self.settings is not None else defaults(self.algorithm)
        return RunConfig(env=self.env, algorithm=self.algorithm, settings=settings, **option_values(self))


def run(options: Train) -> int:
    """Train from the start, or go on with the same run where it was interrupted and the user agrees."""
    from geoact.storage import notes

    config = options.config()
    if options.print_config:
        print(run_file.write(config), end="")
        return 0
    notes.check_tags(options.tag)
    if options.wandb:
        from geoact.storage.recorder import require_wandb

        require_wandb()
    with unbreakable():
        return _train(options, config)


def _train(options: Train, config: RunConfig) -> int:
    from geoact.training import backend

    backend.set_threads(config.threads)
    from geoact import environments
    from geoact.storage import notes, runs
    from geoact.training import session as sessions

    def open_run(config: RunConfig) -> "runs.Run":
        unfinished = None if options.quiet else runs.find_unfinished(options.runs_dir, config)
        if unfinished is not None:
            path = unfinished.path
            print(f"note: {path} is the same run, unfinished: geoact resume {path} goes on with it")
            if agrees("go on with it instead of starting anew?"):
                raise _GoOn(path)
        made = runs.create(options.runs_dir, config)
        if options.tag or options.note:
            notes.write(made.path, notes.Notes(tuple(dict.fromkeys(options.tag)), options.note))
        return made

    try:
        session = sessions.Session(config, environments.factory(config.env), open_run)
    except _GoOn as instead:
        from geoact.commands import resume

        return resume.run(resume.Resume(instead.path))
    if not options.quiet:
        for line in remarks(config.settings, session.config):
            print(line)
    return finish(session, options.quiet)


class _GoOn(Exception):
    """The user would rather go on with an unfinished run."""

    def __init__(self, path: Path):
        super().__init__(str(path))
        self.path = path


def finish(session: "Session", quiet: bool) -> int:
    """Bring a run to its end, showing how it goes; the exit code."""
    from geoact.training.callbacks import Progress

    assert session.run is not None
    path, complete = session.run.path, False
    with session:
        try:
            complete = session.train(None if quiet else Progress())
        except KeyboardInterrupt:
            pass  # asked twice: it was saved as far as that was possible
        except (TrainingFailed, InputError):
            print(f"run: {path}", flush=True)
            raise
    if not complete and not quiet:
        done, total = session.saved_at, session.config.timesteps
        print(f"stopped at {session.timesteps:,} of {total:,}: geoact resume {path} goes on at {done:,}")
    print(f"run: {path}", flush=True)
    return 0 if complete else STOPPED


def remarks(asked: AlgorithmConfig, config: RunConfig) -> list[str]:
    """One line for each automatic choice that a newcomer would wonder about."""
    lines = []
    resolved = config.settings
    if config.vectorization == "envpool":
        lines.append(
            "note: EnvPool begins episodes from random numbers of its own: this run cannot be resumed exactly"
        )
    if not isinstance(asked, GACConfig) or not isinstance(resolved, GACConfig):
        return lines
    if asked.slack == "auto" and resolved.slack == 1:
        lines.append(
            "note: slack 1 is used, because this environment has one action dimension and a sphere of two points "
            "is no place to learn"
        )
    if resolved.concentration == "free" and resolved.exploration == "kappa":
        lines.append(
            "note: a free kappa with exploration by kappa is known to diverge; it is here as an ablation"
        )
    return lines


def parse(argv: list[str]) -> Train:
    """The options, and the settings of the algorithm that they name; both start from a file if one is given."""
    named = _arguments.value_of(argv, "--config")
    file = run_file.read(Path(named)) if named is not None else None
    algorithm = _arguments.value_of(argv, "--algorithm") or (file.algorithm if file else DEFAULT_ALGORITHM)
    settings = defaults(algorithm)
    if file is not None and file.algorithm == algorithm:
        settings = file.settings
    refuse_unknown(argv, algorithm)
    options = read(argv, algorithm, settings, file)
    if file is not None and named is not None:
        _note_differences(Path(named), file, options)
    return options


def read(argv: list[str], algorithm: str, settings: AlgorithmConfig, file: RunFile | None = None) -> Train:
    """Parse, with the settings and the file's options as defaults."""
    start = Train("", algorithm=algorithm, **option_values(file.options if file else RunOptions()))
    env = file.env if file is not None and file.env is not None else tyro.MISSING
    object.__setattr__(start, "env", env)  # tyro's word for what must be given is no environment

    def options(
        run: Annotated[Train, tyro.conf.arg(name="")] = start,
        settings: Annotated[type(settings), tyro.conf.arg(name="")] = settings,  # type: ignore[valid-type]
        config: Annotated[Path | None, tyro.conf.arg(help=CONFIG_HELP)] = None,
    ) -> Train:
        return dataclasses.replace(run, settings=settings)

    about = (
        f"{cleandoc(Train.__doc__ or '')}\n\nThe settings below are {algorithm}'s; "
        "geoact train --algorithm NAME --help shows another's."
    )
    return _arguments.read(options, "train", argv, about, pairs=True)


def _note_differences(path: Path, file: RunFile, options: Train) -> None:
    if options.algorithm != file.algorithm:
        print(
            f"note: the settings in {path} are {file.algorithm}'s and left out: this is {options.algorithm}",
            file=sys.stderr,
        )
    elif file.resolved and options.env != file.env:
        print(
            f"note: the automatic settings in {path} are those that were worked out for {file.env}; they are kept "
            f"for {options.env}",
            file=sys.stderr,
        )


def flags() -> Flags:
    """The flags of every algorithm together."""
    found = _common_flags()
    for entry in REGISTRY.values():
        found |= _settings_flags(type(entry.config))
    return found


def _common_flags() -> Flags:
    return _arguments.flags(Train, pairs=True) | {"--config": ()}


def _settings_flags(kind: type) -> Flags:
    return {flag: v for flag, v in _arguments.flags(kind, pairs=True).items() if flag != "--help"}


def refuse_unknown(argv: list[str], algorithm: str) -> None:
    """Name the first flag that does not exist, or that is another algorithm's."""
    known = _common_flags() | _settings_flags(type(defaults(algorithm)))
    for flag in _arguments.given_flags(argv):
        owners = [name for name, entry in REGISTRY.items() if flag in _settings_flags(type(entry.config))]
        if owners and flag not in known:
            raise InputError(f"{flag} is an option of {', '.join(owners)}; this is {algorithm}")
    _arguments.refuse_unknown(argv, known, "train")
