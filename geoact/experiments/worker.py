"""One run of a sweep in a process of its own: `python -m geoact.experiments.worker RUN CORE PARENT`.

The run's directory says what to do: its configuration is in run.json, and where a checkpoint is there the run
goes on from it. Working on a run twice is therefore safe, and on a finished one does nothing. The exit code is
0 (finished), 130 (stopped; can go on), 1 (failed) or 2 (bad input).
"""

import contextlib
import ctypes
import fcntl
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

STOPPED = 130


def pin(core: int) -> None:
    """Stay on one core; before any thread exists, so that all of them do."""
    os.sched_setaffinity(0, {core})


def die_with(parent: int) -> None:
    """Ask the kernel for a SIGTERM when the parent ends, however it ends: no orphan may go on unseen."""
    with contextlib.suppress(OSError, AttributeError):  # only Linux has it
        ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGTERM)
    if os.getppid() != parent:  # it ended before we asked
        raise SystemExit(STOPPED)


@contextlib.contextmanager
def alone(run: Path, patience: float = 60.0) -> Iterator[None]:
    """Hold the run; an earlier worker of it that is still saving is waited for."""
    from geoact.errors import InputError

    with open(run.with_name(f".{run.name}.lock"), "w") as file:
        deadline = time.monotonic() + patience
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise InputError(f"{run} is being trained by another process") from None
                time.sleep(0.2)
        yield


def start_over(run: Path) -> None:
    """Remove everything that an unfinished run without a checkpoint has written, besides what it is."""
    for path in run.iterdir():
        if path.name == "run.json":
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def work(path: Path) -> int:
    """Bring a run to its end."""
    from geoact import backend

    backend.set_threads(1)
    from geoact import environments, training
    from geoact.errors import InputError, TrainingFailed
    from geoact.runs import open_run

    try:
        with alone(path):
            run = open_run(path)
            config = run.config()
            if (path / "status.json").exists() and run.status().get("state") == "finished":
                return 0
            start_over(path)
            run.set_status("running", 0, config.timesteps)
            session = training.Training(config, environments.factory(config.env), run)
            try:
                return 0 if training.train(session) else STOPPED
            finally:
                session.close()
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    except TrainingFailed as error:
        print(error, file=sys.stderr)
        return 1


def main(argv: list[str]) -> int:
    path, core, parent = argv
    pin(int(core))
    die_with(int(parent))
    return work(Path(path))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
