"""A run's directory.

    runs/<env>__<algorithm>__s<seed>__<time>/
      run.json       schema, full configuration, library versions
      status.json    running | finished | stopped | failed (+ reason), progress
      metrics.jsonl  one object per log point (see recorder.py)
      events.*       TensorBoard
      checkpoints/   the last two states of the run, with replay/ (see checkpoints.py)
      lock           held by the process that trains (see locks.py)
      policy/        the newest policy: policy.json + policy.safetensors, all that one shares
      best/          the one with the best evaluation

No JAX here: listing and reading runs must be quick.
"""

import errno
import importlib.metadata
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from geoact import __version__
from geoact.config import FORMER_METRICS, RunConfig
from geoact.errors import FileFormatError, InputError
from geoact.storage import files, locks

SCHEMA = 2
CLOCK_KEYS = frozenset({"charts/SPS", "time/elapsed", "time/checkpoints"})
"""The metrics that depend on the clock; all others are functions of the configuration."""

SCALE_DEVIATION = "policy/scale_deviation"
"""Standard deviation of a learned scale over the action's dimensions, of their means over the batch."""
SCALE_STD = "policy/scale_std"
"""The same over dimensions and states together, which is larger: what version 0.1 logged. Under this name stood the
deviation over dimensions, too, where every dimension is logged beside it; such rows are read with its present name."""

LIBRARIES = ("jax", "equinox", "optax", "numpy", "gymnasium", "mujoco", "dm_control")

RunState = Literal["running", "finished", "stopped", "failed"]


class Savable(Protocol):
    """A policy, as far as its folder is concerned."""

    def save(self, folder: Path) -> object:
        """Write its files into an empty folder."""
        ...


@dataclass(frozen=True)
class Run:
    """A run directory."""

    path: Path

    @property
    def policy_path(self) -> Path:
        """The folder of the newest policy."""
        return self.path / "policy"

    @property
    def best_path(self) -> Path:
        """The folder of the policy with the best evaluation."""
        return self.path / "best"

    def config(self) -> RunConfig:
        """The run's configuration, from run.json."""
        data = files.read_json(self.path / "run.json")
        schema = data.get("schema")
        if data.get("format") != "geoact-run" or not isinstance(schema, int):
            raise FileFormatError(f"{self.path / 'run.json'} is not a geoact run")
        if schema > SCHEMA:
            raise FileFormatError(
                f"{self.path} was written by a newer geoact ({data.get('version')}, schema {schema}; this one reads "
                f"up to {SCHEMA}): upgrade geoact to use it"
            )
        config = data.get("config")
        if not files.is_object(config):
            raise FileFormatError(f"{self.path / 'run.json'} is damaged: it has no configuration")
        return RunConfig.from_json(config)

    def status(self) -> dict[str, Any]:
        """What status.json says: state, progress, reason."""
        return files.read_json(self.path / "status.json")

    def set_status(
        self,
        state: RunState,
        timesteps: int,
        total: int,
        reason: str | None = None,
        not_exact: str | None = None,
    ) -> None:
        """`not_exact`: why a resumed run is not what it would have been without the interruption."""
        status: dict[str, Any] = {"state": state, "timesteps": timesteps, "total": total}
        status |= {"reason": reason} if reason else {}
        status |= {"exact": False, "not_exact": not_exact} if not_exact else {}
        files.write_json(self.path / "status.json", status)

    def state(self) -> str:
        """The state in status.json; "interrupted" for a run that says it is running and no process holds."""
        state = str(self.status().get("state"))
        return "interrupted" if state == "running" and not self.locked() else state

    def lock(self) -> locks.Lock:
        """The right to write into this run, for this process alone; refused while another one has it."""
        return locks.Lock(self.path)

    def locked(self) -> bool:
        """Whether a living process trains this run."""
        return locks.held(self.path / "lock")

    def change_config(self, config: RunConfig) -> None:
        """Write down that the run is to go on for longer, or with another environment."""
        data = files.read_json(self.path / "run.json")
        files.write_json(self.path / "run.json", data | {"config": config.to_json()})

    def libraries(self) -> dict[str, Any]:
        """The library versions that the run was begun with."""
        found = files.read_json(self.path / "run.json").get("libraries")
        return found if files.is_object(found) else {}

    def truncate_metrics(self, size: int) -> bool:
        """Drop the rows behind the first `size` bytes; False if not so many are there."""
        path = self.path / "metrics.jsonl"
        if not path.exists():
            return size == 0
        with open(path, "r+b") as file:
            there = file.seek(0, os.SEEK_END)
            whole = size if there >= size else self._whole_rows(path)
            file.truncate(whole)
            os.fsync(file.fileno())
        return there >= size

    @staticmethod
    def _whole_rows(path: Path) -> int:
        return path.read_bytes().rfind(b"\n") + 1

    def metrics(self) -> list[dict[str, Any]]:
        """All complete rows of metrics.jsonl, every metric by its present name."""
        rows: list[Any] = []
        try:
            lines = (self.path / "metrics.jsonl").read_bytes().splitlines(keepends=True)
        except FileNotFoundError:
            return rows
        for number, line in enumerate(lines, 1):
            if not line.endswith(b"\n"):
                break  # a row being written
            try:
                rows.append(json.loads(line))
            except ValueError:
                raise FileFormatError(f"{self.path / 'metrics.jsonl'} is damaged in line {number}") from None
        if any(isinstance(row, dict) and not FORMER_METRICS.keys().isdisjoint(row) for row in rows):
            # Only runs of an earlier version need to say which algorithm they are of.
            present = self.config().settings.former_metrics
            rows = [
                {present.get(name, name): value for name, value in row.items()}
                if isinstance(row, dict)
                else row
                for row in rows
            ]
        for row in rows:
            if isinstance(row, dict) and SCALE_STD in row and "policy/scale/0" in row:
                row[SCALE_DEVIATION] = row.pop(SCALE_STD)
        return rows

    def save_policy(self, policy: Savable, best: bool) -> None:
        """Replace the newest policy and, where it is the best, that one; other things in their folders stay there."""
        for folder in (self.policy_path, self.best_path) if best else (self.policy_path,):
            with files.new_folder(folder, keep=True) as temporary:
                policy.save(temporary)


def create(runs_dir: Path, config: RunConfig) -> Run:
    """A new run directory, ready to train in."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    name = config.env.replace("/", "-").replace(":", "-")
    stem = f"{name}__{config.algorithm}__s{config.seed}__{stamp}"
    try:
        runs_dir.mkdir(parents=True, exist_ok=True)
        return create_at(_free_folder(runs_dir, stem), config)
    except OSError as error:
        raise InputError(
            f"cannot write a run into {runs_dir}: {because(error)}; choose another --runs-dir"
        ) from None


def create_at(path: Path, config: RunConfig) -> Run:
    """A new run in exactly this folder."""
    path.mkdir(parents=True, exist_ok=True)
    run = Run(path)
    run.set_status("running", 0, config.timesteps)
    files.write_json(
        path / "run.json",
        {
            "format": "geoact-run",
            "schema": SCHEMA,
            "version": __version__,
            "libraries": library_versions(),
            "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "config": config.to_json(),
        },
    )
    return run


def _free_folder(runs_dir: Path, stem: str) -> Path:
    for number in range(1000):
        path = runs_dir / (stem if number == 0 else f"{stem}-{number}")
        try:
            path.mkdir()
            return path
        except FileExistsError:
            continue
    raise InputError(f"{runs_dir} has a thousand runs named {stem}")


def because(error: OSError) -> str:
    """Why a file could not be written, in words."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "the disk is full"
    return (error.strerror or str(error)).lower()


def library_versions() -> dict[str, str | None]:
    """The installed versions of what results depend on."""
    return {name: _version(name) for name in LIBRARIES}


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def open_run(path: Path | str) -> Run:
    """An existing run, or an error that says what the path is instead."""
    path = Path(path)
    if not path.exists():
        raise InputError(f"{path} does not exist: give a run directory (geoact list shows them)")
    if not (path / "run.json").is_file():
        raise InputError(f"{path} is not a run: there is no run.json in it")
    return Run(path)


def is_run(path: Path) -> bool:
    """Whether a folder, or what a link points to, is a run; one that may not be read is none."""
    try:
        return (path / "run.json").is_file()
    except OSError:
        return False


def find_runs(runs_dir: Path | str) -> Iterator[Run]:
    """The run directories below `runs_dir`, oldest name first."""
    runs_dir = Path(runs_dir)
    if not runs_dir.is_dir():
        raise InputError(
            f"{runs_dir} is not a directory: give the one that runs were written to (--runs-dir)"
        )
    try:
        paths = sorted(runs_dir.iterdir())
    except OSError as error:
        raise InputError(f"{runs_dir} cannot be read: {because(error)}") from None
    for path in paths:
        if is_run(path):
            yield Run(path)


def find_unfinished(runs_dir: Path, config: RunConfig) -> Run | None:
    """The newest run of this very configuration that was interrupted or stopped and can be resumed."""
    if not runs_dir.is_dir():
        return None
    wanted = identity(config)
    for run in reversed(list(find_runs(runs_dir))):
        try:
            if identity(run.config()) == wanted and run.state() in ("interrupted", "stopped"):
                return run
        except (InputError, OSError):
            continue
    return None


def identity(config: RunConfig) -> dict[str, Any]:
    """What makes two runs the same: everything but how often they are saved."""
    return {name: value for name, value in config.to_json().items() if "checkpoint" not in name}


def best_evaluation(rows: list[dict[str, Any]]) -> tuple[float, int] | None:
    """The highest mean return of an evaluation and the step it was reached at."""
    scores = [(row["eval/return_mean"], row["step"]) for row in rows if "eval/return_mean" in row]
    return max(scores, key=lambda score: score[0]) if scores else None
