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
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import geoact
from geoact.config import RunConfig
from geoact.errors import InputError
from geoact.experiments.local import Job, evaluations_of
from geoact.storage import runs

if TYPE_CHECKING:
    from ray.tune import Checkpoint  # pyright: ignore[reportMissingImports]

    from geoact.experiments.tuning import Study

MAX_FAILURES = 10
"""How often a trial is restored before it is given up."""


def run(jobs: list[Job], out: Path, address: str | None, storage: str | None, every: float) -> None:
    """Run the jobs that are waiting, and gather their directories; jobs' states are up to date afterwards.

    `every`: seconds between copies of a run to the storage path.
    """
    tune = _tune()
    waiting = [job for job in jobs if job.state == "waiting"]
    if not waiting:
        return
    place = storage or str((out / ".ray").resolve())
    # The same runs make the same experiment, so that the same command finds it again.
    digest = hashlib.sha256("\n".join(sorted(job.planned.name for job in jobs)).encode()).hexdigest()[:12]
    name = f"{out.resolve().name}-{digest}"
    _connect(address)
    # Failed runs that are to be tried again are over for Tune, so they make an experiment of their own.
    again = [job for job in waiting if (job.path / "status.json").exists() and _state(job) == "failed"]
    fresh = [job for job in waiting if job not in again]
    if fresh:
        _fit(tune, fresh, place, name, every)
    if again:
        _fit(tune, again, place, f"{name}-again-{time.time_ns()}", every)


def _tune() -> Any:
    try:
        from ray import tune  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise InputError("--executor ray needs Ray: pip install 'geoact[ray]'") from None
    return tune


def _connect(address: str | None) -> None:
    import ray  # pyright: ignore[reportMissingImports]

    if ray.is_initialized():
        return
    try:
        ray.init(address=address, log_to_driver=False)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise InputError(f"cannot reach a Ray cluster at {address!r}: {error}") from None


def search(
    study: "Study",
    out: Path,
    address: str | None,
    storage: str | None,
    every: float,
    parallel: int,
    say: Callable[[str], None],
) -> None:
    """Run a hyperparameter search's trials, `parallel` at a time, until it has enough; gather their directories."""
    tune = _tune()
    from ray.tune.schedulers import FIFOScheduler, TrialScheduler  # pyright: ignore[reportMissingImports]
    from ray.tune.search import Searcher  # pyright: ignore[reportMissingImports]

    known: dict[str, str] = {}  # Tune's name of a trial -> the run's

    def evaluations(result: dict[str, Any] | None) -> list[tuple[int, float]]:
        return [(int(step), float(score)) for step, score in (result or {}).get("evaluations", [])]

    class Suggestions(Searcher):  # pyright: ignore[reportUntypedBaseClass]
        """Asks the study. What Tune would save of it is in the study's own storage."""

        def set_search_properties(self, metric: Any, mode: Any, config: Any, **spec: Any) -> bool:
            return True

        def suggest(self, trial_id: str) -> Any:
            planned = study.next()
            if planned is None:
                return Searcher.FINISHED
            known[trial_id] = planned.name
            run = {"name": planned.name, "config": planned.config.to_json()}
            return {"every": every, "evaluations": True, "run": run}

        def on_trial_complete(self, trial_id: str, result: Any = None, error: bool = False) -> None:
            name = known.pop(trial_id, None)
            if name is not None:
                found, reason = evaluations(result), str((result or {}).get("reason", ""))
                complete = (result or {}).get("state") == "finished"
                failed = reason or ("its worker was lost too often" if error else "")
                say(study.close(name, found, complete, failed))

        def save(self, checkpoint_path: str) -> None:
            pass

        def restore(self, checkpoint_path: str) -> None:
            pass

        def __deepcopy__(self, memo: Any) -> Any:
            return self

        def __reduce__(self) -> Any:
            return object, ()

    class Prune(FIFOScheduler):  # pyright: ignore[reportUntypedBaseClass]
        """Ends what the study gives up."""

        def on_trial_result(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> str:
            name = known.get(trial.trial_id)
            give_up = name is not None and study.watch(name, evaluations(result))
            return TrialScheduler.STOP if give_up else TrialScheduler.CONTINUE

        def __deepcopy__(self, memo: Any) -> Any:
            return self

        def __reduce__(self) -> Any:
            return object, ()

    _connect(address)
    # Every evaluation brings a copy of its run, which Tune would remark upon each time.
    os.environ.setdefault("TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S", "0")
    tuner = tune.Tuner(
        tune.with_resources(train_one, {"cpu": 1}),
        tune_config=tune.TuneConfig(
            num_samples=-1,
            max_concurrent_trials=parallel,
            search_alg=Suggestions(),
            scheduler=Prune(),
            trial_name_creator=trial_name,
            trial_dirname_creator=trial_name,
        ),
        run_config=tune.RunConfig(
            name=f"tune-{time.time_ns()}",  # a search goes on from its own storage, never from Tune's
            storage_path=storage or str((out / ".ray").resolve()),
            failure_config=tune.FailureConfig(max_failures=MAX_FAILURES),
            checkpoint_config=tune.CheckpointConfig(num_to_keep=1),
            verbose=0,
        ),
    )
    for result in tuner.fit():
        name = (result.config or {}).get("run", {}).get("name")
        if name and result.checkpoint is not None:
            gather(result.checkpoint, out / name)


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
        reported, seen = time.monotonic(), 0
        while process.poll() is None:
            time.sleep(0.5)
            # A search decides at every evaluation whether to go on.
            new = bool(config.get("evaluations")) and len(evaluations_of(path)) > seen
            if new or time.monotonic() - reported >= config["every"]:
                seen = report(path)
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


def report(path: Path) -> int:
    """Hand a copy of the run to Tune, as it is now; gives the number of its evaluations."""
    from ray import tune  # pyright: ignore[reportMissingImports]

    with tempfile.TemporaryDirectory(prefix="geoact-copy-") as folder:
        copy = copy_live(path, Path(folder) / "run")
        status, found = runs.Run(copy).status(), evaluations_of(copy)
        facts = {
            "timesteps": int(status.get("timesteps", 0)),
            "state": status.get("state"),
            "reason": str(status.get("reason", "")),
            "evaluations": found,
        }
        tune.report(facts, checkpoint=tune.Checkpoint.from_directory(str(copy)))
        return len(found)


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
