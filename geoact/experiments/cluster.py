"""The same sweep on a Ray cluster, through Ray Tune: one trial per run, one core per trial.

A trial is the worker of a local sweep (worker.py), in a process of its own. Its run directory is copied to the
storage path every so often; when a worker or a node dies, Tune restores the trial elsewhere from the newest
copy, and the worker goes on from the checkpoint in it. At the end the run directories are gathered into the
sweep's own directory, where they look as if they had been trained there.

The same command again continues the sweep: runs that have been gathered are left out, and what Tune knows of
the others is restored from the storage path.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import geoact
from geoact.config import RunConfig
from geoact.errors import InputError
from geoact.experiments.local import Job
from geoact.storage import runs

if TYPE_CHECKING:
    from ray.tune import Checkpoint  # pyright: ignore[reportMissingImports]

MAX_FAILURES = 10
"""How often a trial is restored before it is given up."""


def run(jobs: list[Job], out: Path, address: str | None, storage: str | None, every: float) -> None:
    """Run the jobs that are waiting, and gather their directories; jobs' states are up to date afterwards.

    `every`: seconds between copies of a run to the storage path.
    """
    try:
        import ray  # pyright: ignore[reportMissingImports]
        from ray import tune  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise InputError("--executor ray needs Ray: pip install 'geoact[ray]'") from None
    waiting = [job for job in jobs if job.state == "waiting"]
    if not waiting:
        return
    place = storage or str((out / ".ray").resolve())
    # The same runs make the same experiment, so that the same command finds it again.
    digest = hashlib.sha256("\n".join(sorted(job.planned.name for job in jobs)).encode()).hexdigest()[:12]
    name = f"{out.resolve().name}-{digest}"
    if not ray.is_initialized():
        try:
            ray.init(address=address, log_to_driver=False)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise InputError(f"cannot reach a Ray cluster at {address!r}: {error}") from None
    # Failed runs that are to be tried again are over for Tune, so they make an experiment of their own.
    again = [job for job in waiting if (job.path / "status.json").exists() and _state(job) == "failed"]
    fresh = [job for job in waiting if job not in again]
    if fresh:
        _fit(tune, fresh, place, name, every)
    if again:
        _fit(tune, again, place, f"{name}-again-{time.time_ns()}", every)


def _state(job: Job) -> Any:
    return runs.Run(job.path).status().get("state")


def _fit(tune: Any, jobs: list[Job], place: str, name: str, every: float) -> None:
    """One Tune experiment, begun or restored, and its runs gathered."""
    trainable = tune.with_resources(train_one, {"cpu": 1})
    path = f"{place.rstrip('/')}/{name}"
    if tune.Tuner.can_restore(path):
        tuner = tune.Tuner.restore(path, trainable, resume_unfinished=True, resume_errored=True)
    else:
        planned = [{"name": job.planned.name, "config": job.planned.config.to_json()} for job in jobs]
        tuner = tune.Tuner(
            trainable,
            param_space={"every": every, "run": tune.grid_search(planned)},
            tune_config=tune.TuneConfig(trial_name_creator=trial_name, trial_dirname_creator=trial_name),
            run_config=tune.RunConfig(
                name=name,
                storage_path=place,
                failure_config=tune.FailureConfig(max_failures=MAX_FAILURES),
                checkpoint_config=tune.CheckpointConfig(num_to_keep=1),
                verbose=1,
            ),
        )
    wanted = {job.planned.name: job for job in jobs}
    for result in tuner.fit():
        job = wanted.get((result.config or {}).get("run", {}).get("name", ""))
        if job is None:
            continue
        if result.checkpoint is not None:
            gather(result.checkpoint, job.path)
        status = runs.Run(job.path).status() if (job.path / "status.json").exists() else {}
        if status.get("state") in ("finished", "failed"):
            job.state, job.reason = status["state"], str(status.get("reason", ""))
        elif result.error is not None:
            job.state, job.reason = "failed", f"given up after {MAX_FAILURES} restorations: {result.error}"
        job.read_progress()


def trial_name(trial: Any) -> str:
    """A trial is known by its run."""
    return trial.config["run"]["name"]


def gather(checkpoint: "Checkpoint", path: Path) -> None:
    """Put a run's last copy where a local sweep would have trained it, in one step."""
    temporary = path.with_name(f".{path.name}.gathering")
    shutil.rmtree(temporary, ignore_errors=True)
    checkpoint.to_directory(str(temporary))
    if path.exists():
        shutil.rmtree(path)
    os.rename(temporary, path)


def train_one(config: dict[str, Any]) -> None:
    """One trial: bring a run to its end, reporting a copy of it every so often."""
    from ray import tune  # pyright: ignore[reportMissingImports]

    folder = Path(tempfile.mkdtemp(prefix="geoact-"))
    path = folder / config["run"]["name"]
    process: subprocess.Popen[bytes] | None = None
    try:
        earlier = tune.get_checkpoint()
        if earlier is not None:
            earlier.to_directory(str(path))
        if not (path / "run.json").exists():
            runs.create_at(path, RunConfig.from_json(config["run"]["config"]))
        source = str(Path(geoact.__file__).parents[1])
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([source, os.environ.get("PYTHONPATH", "")]),
        }
        log = folder / "worker.log"
        with open(log, "wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "geoact.experiments.worker", path, "any", str(os.getpid())],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
            )
        reported = time.monotonic()
        while process.poll() is None:
            time.sleep(0.5)
            if time.monotonic() - reported >= config["every"]:
                report(path)
                reported = time.monotonic()
        status = runs.Run(path).status()
        words = log.read_text(errors="replace").strip().splitlines()
        if process.returncode > 0 and process.returncode != 130 and status.get("state") == "running":
            reason = words[-1] if words else "it ended without a message"
            runs.Run(path).set_status("failed", int(status.get("timesteps", 0)), int(status["total"]), reason)
        report(path)
        if process.returncode < 0 or process.returncode == 130:
            raise RuntimeError(
                f"the worker was ended by a signal ({process.returncode}): Tune restores the trial"
            )
    finally:
        if process is not None and process.poll() is None:
            process.terminate()
            process.wait(timeout=120)
        shutil.rmtree(folder, ignore_errors=True)


def report(path: Path) -> None:
    """Hand a copy of the run to Tune, as it is now."""
    from ray import tune  # pyright: ignore[reportMissingImports]

    with tempfile.TemporaryDirectory(prefix="geoact-copy-") as folder:
        copy = copy_live(path, Path(folder) / "run")
        done = int(runs.Run(copy).status().get("timesteps", 0))
        tune.report({"timesteps": done}, checkpoint=tune.Checkpoint.from_directory(str(copy)))


def copy_live(path: Path, target: Path) -> Path:
    """A copy of a directory that is being written to: when a file vanishes meanwhile, all of it again.

    A run's files are replaced whole, and a new checkpoint is complete before an old one goes, so that any copy
    made without such a gap holds one that can be continued from.
    """
    for _ in range(20):
        shutil.rmtree(target, ignore_errors=True)
        try:
            shutil.copytree(path, target, ignore=shutil.ignore_patterns(".*.tmp"))
            # A checkpoint copied after the metrics may know of rows written meanwhile: they only ever grow.
            if (path / "metrics.jsonl").exists():
                shutil.copy2(path / "metrics.jsonl", target / "metrics.jsonl")
            return target
        except (shutil.Error, FileNotFoundError):
            time.sleep(0.1)
    raise RuntimeError(f"{path} changes too fast to be copied")
