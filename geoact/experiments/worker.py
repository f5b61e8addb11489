"""One run of a sweep in a process of its own: `python -m geoact.experiments.worker RUN CORE PARENT`.

The run's directory says what to do: its configuration is in run.json, and where a checkpoint is there the run
goes on from it. Working on a run twice is therefore safe, and on a finished one does nothing. The exit code is
0 (finished), 130 (stopped; can go on), 1 (failed) or 2 (bad input).
"""

import contextlib
import ctypes
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from geoact.errors import STOPPED, InputError, TrainingFailed

if TYPE_CHECKING:
    from geoact.storage.runs import Run


def pin(core: int) -> None:
    """Stay on one core, where the system can; before any thread exists, so that all of them do."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})


def die_with(parent: int) -> None:
    """Ask the kernel for a SIGTERM when the parent ends, however it ends: no orphan may go on unseen."""
    with contextlib.suppress(OSError, AttributeError):  # only Linux has it
        ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGTERM)
    if os.getppid() != parent:  # it ended before we asked
        raise SystemExit(STOPPED)


def wait_for_the_former(run: "Run", patience: float = 60.0) -> None:
    """An earlier worker of this run may still be saving its last checkpoint."""
    deadline = time.monotonic() + patience
    while run.locked() and time.monotonic() < deadline:
        time.sleep(0.2)


def work(path: Path) -> int:
    """Bring a run to its end."""
    from geoact.training import backend

    backend.set_threads(1)
    from geoact.storage.runs import open_run
    from geoact.training.resuming import resume

    try:
        run = open_run(path)
        if run.state() == "finished":
            return 0
        wait_for_the_former(run)
        with resume(path) as session:
            return 0 if session.train() else STOPPED
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    except TrainingFailed as error:
        print(error, file=sys.stderr)
        return 1


def main(argv: list[str]) -> int:
    path, core, parent = argv
    if core != "any":  # a cluster places its workers itself
        pin(int(core))
    die_with(int(parent))
    return work(Path(path))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
