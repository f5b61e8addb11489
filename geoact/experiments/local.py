"""Sweeps on this machine: one pinned, single-threaded process per core.

The state of a sweep is its run directories and nothing else, so that it survives anything: running the same
command again keeps the finished runs, continues the unfinished and reports the failed. Workers are spawned,
never forked; a worker that was killed is started again from its checkpoint, a few times. When this process
ends, however it ends, its workers save and end too.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Literal

from geoact.errors import STOPPED, FileFormatError, InputError
from geoact.experiments.plan import PlannedRun
from geoact.machine import available_cores
from geoact.storage import runs

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

State = Literal["waiting", "running", "finished", "failed", "stopped"]


@dataclass
class Job:
    """A planned run and what has become of it."""

    planned: PlannedRun
    path: Path
    state: State = "waiting"
    reason: str = ""
    process: "subprocess.Popen[bytes] | None" = None
    core: int | None = None
    restarts: int = 0
    done: int = 0
    """Transitions so far."""
    score: float | None = None
    """Newest evaluation."""
    begun: float = 0.0
    begun_at: int = 0
    rate: float | None = None
    """Transitions per second in this session."""
    ended: bool = False
    """Whether it was asked to end early, for good."""

    @property
    def total(self) -> int:
        return self.planned.config.timesteps

    def seconds_left(self) -> float | None:
        return (self.total - self.done) / self.rate if self.rate else None

    def read_progress(self) -> None:
        """Read progress from the run's files."""
        with contextlib.suppress(OSError, FileFormatError):
            self.done = min(int(runs.Run(self.path).status().get("timesteps", 0)), self.total)
        if self.state == "running" and self.done > self.begun_at:
            self.rate = (self.done - self.begun_at) / max(time.monotonic() - self.begun, 1e-9)
        found = evaluations_of(self.path)
        self.score = found[-1][1] if found else self.score


def evaluations_of(path: Path) -> list[tuple[int, float]]:
    """Transitions and mean return of the evaluations that a run's directory has."""
    with contextlib.suppress(OSError, FileFormatError):
        rows = runs.Run(path).metrics()
        return [(int(row["step"]), row["eval/return_mean"]) for row in rows if "eval/return_mean" in row]
    return []


def inspect(plan: list[PlannedRun], out: Path, retry_failed: bool = False) -> list[Job]:
    """What is there already of each planned run; a folder that holds another run is refused."""
    jobs = []
    for planned in plan:
        job = Job(planned, out / planned.name)
        jobs.append(job)
        if not (job.path / "run.json").exists():
            continue
        run = runs.Run(job.path)
        if runs.identity(run.config()) != runs.identity(planned.config):
            raise InputError(
                f"{job.path} holds a run with another configuration than the one planned: choose another --out, or "
                "remove it"
            )
        status = run.status() if (job.path / "status.json").exists() else {}
        job.read_progress()
        if status.get("state") == "finished":
            job.state = "finished"
        elif status.get("state") == "failed" and not retry_failed:
            job.state, job.reason = "failed", str(status.get("reason", ""))
    return jobs


class LocalSweep:
    """Runs jobs to their ends, `parallel` at a time."""

    def __init__(self, jobs: list[Job], parallel: int, max_restarts: int = 3):
        self.jobs = jobs
        self.max_restarts = max_restarts
        cores = available_cores()
        self._free = [cores[i % len(cores)] for i in range(parallel)]
        self.stopping = False
        self.events: list[str] = []
        """What happened, in sentences, for a display to take away."""

    def run(self, show: "Any", follow: "Callable[[LocalSweep], None] | None" = None) -> bool:
        """Until everything has ended; True if every run is finished. `show(self)` is called several times a second.

        `follow(self)` is called before anything is started, and may add to `jobs` and `end` them.
        """
        with self._signals():
            while True:
                self._collect()
                if follow is not None:
                    follow(self)
                if not self.stopping:
                    self._launch()
                show(self)
                if not self.running():
                    if self.stopping or not any(job.state == "waiting" for job in self.jobs):
                        break
                    continue
                time.sleep(0.25)
        return all(job.state == "finished" for job in self.jobs)

    @property
    def free(self) -> int:
        """How many more could run at once."""
        return len(self._free)

    def end(self, job: Job) -> None:
        """Ask a run to end early; it saves first."""
        if job.process is not None and not job.ended:
            job.ended = True
            job.process.send_signal(signal.SIGTERM)

    def running(self) -> list[Job]:
        return [job for job in self.jobs if job.state == "running"]

    def seconds_left(self) -> float | None:
        """Of the whole sweep: what is known of the speed so far, spread over the workers."""
        rates = [job.rate * job.planned.cost / job.total for job in self.jobs if job.rate]  # cost per second
        if not rates:
            return None
        mean = sum(rates) / len(rates)
        work, longest = 0.0, 0.0
        for job in self.jobs:
            if job.state in ("waiting", "running"):
                rest = job.seconds_left() if job.state == "running" else None
                seconds = rest if rest is not None else job.planned.cost * (1 - job.done / job.total) / mean
                work, longest = work + seconds, max(longest, seconds)
        workers = len(self._free) + len(self.running())
        return max(longest, work / max(workers, 1))

    def _launch(self) -> None:
        for job in self.jobs:
            if not self._free:
                return
            if job.state != "waiting":
                continue
            if not (job.path / "run.json").exists():
                runs.create_at(job.path, job.planned.config)
            log = job.path.parent / "logs" / f"{job.path.name}.log"
            log.parent.mkdir(exist_ok=True)
            job.core = self._free.pop(0)
            with open(log, "ab") as file:
                # A session of its own: a Ctrl-C at the terminal reaches us alone, and we pass on what it means.
                job.process = subprocess.Popen(
                    [
                        sys.executable,
                        "-m",
                        "geoact.experiments.worker",
                        job.path,
                        str(job.core),
                        str(os.getpid()),
                    ],
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=file,
                    start_new_session=True,
                )
            again = job.done > 0 or job.restarts > 0
            job.state, job.begun, job.begun_at, job.rate = "running", time.monotonic(), job.done, None
            self.events.append(f"{'continued' if again else 'started'} {job.planned.name} on core {job.core}")

    def _collect(self) -> None:
        for job in self.running():
            assert job.process is not None and job.core is not None
            code = job.process.poll()
            if code is None:
                continue
            self._free.append(job.core)
            before = job.begun_at
            job.read_progress()
            job.process = job.core = None
            if code == 0:
                job.state = "finished"
                score = f", evaluation {job.score:,.1f}" if job.score is not None else ""
                self.events.append(f"finished {job.planned.name}{score}")
            elif self.stopping or job.ended:
                job.state = "stopped"
                self.events.append(f"stopped {job.planned.name} at {job.done:,} of {job.total:,}")
            elif code < 0 or code == STOPPED:
                job.restarts = 0 if job.done > before else job.restarts
                job.restarts += 1
                how = f"signal {signal.Signals(-code).name}" if code < 0 else "a signal to stop"
                if job.restarts > self.max_restarts:
                    self._fail(job, f"ended by {how} {job.restarts} times without getting further")
                else:
                    job.state = "waiting"
                    self.events.append(f"{job.planned.name} was ended by {how}: starting it again")
            else:
                status = self._status(job)
                if status.get("state") == "failed":
                    job.state, job.reason = "failed", str(status.get("reason", ""))
                    self.events.append(f"failed {job.planned.name}: {job.reason}")
                else:  # it ended before its training began
                    self._fail(job, self._last_line(job))

    def _fail(self, job: Job, reason: str) -> None:
        runs.Run(job.path).set_status("failed", job.done, job.total, reason)
        job.state, job.reason = "failed", reason
        self.events.append(f"failed {job.planned.name}: {reason}")

    @staticmethod
    def _status(job: Job) -> dict[str, Any]:
        with contextlib.suppress(OSError, FileFormatError):
            return runs.Run(job.path).status()
        return {}

    @staticmethod
    def _last_line(job: Job) -> str:
        log = job.path.parent / "logs" / f"{job.path.name}.log"
        lines = log.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it ended without a message"

    @contextlib.contextmanager
    def _signals(self) -> Generator[None]:
        """Ctrl-C and SIGTERM: pass SIGTERM to the workers, which save and end. A second Ctrl-C ends them at once."""

        def stop(number: int, frame: FrameType | None) -> None:
            again, self.stopping = self.stopping, True
            for job in self.running():
                if job.process is not None:
                    job.process.send_signal(signal.SIGKILL if again else signal.SIGTERM)

        previous = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        except BaseException:
            stop(signal.SIGTERM, None)
            raise
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)


@contextlib.contextmanager
def held(out: Path) -> Generator[None]:
    """One sweep at a time in a directory."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        file = open(out / ".sweep.lock", "w")  # noqa: SIM115 (closed below)
    except OSError as error:
        raise InputError(f"cannot write a sweep into {out}: {error.strerror}; choose another --out") from None
    with file:
        try:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(
                f"another sweep is running in {out}: wait for it, or choose another --out"
            ) from None
        yield


@dataclass
class Display:
    """A live table on a terminal, plain lines in a pipe."""

    every: float = 60.0
    """Seconds between summaries in a pipe."""
    _live: Any = None
    _looked: float = 0.0
    _told: float = field(default_factory=time.monotonic)

    def __enter__(self) -> "Display":
        from rich.console import Console
        from rich.live import Live

        console = Console()
        if console.is_terminal:
            self._live = Live(console=console, auto_refresh=False, transient=False)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def __call__(self, sweep: LocalSweep) -> None:
        now = time.monotonic()
        if now - self._looked >= 1.0:
            self._looked = now
            for job in sweep.running():
                job.read_progress()
            if self._live is not None:
                self._live.update(self._table(sweep), refresh=True)
        events, sweep.events = sweep.events, []
        for event in events:
            self._say(f"{event}  ({summary(sweep)})")
        if events:
            self._told = now
        if self._live is None and now - self._told >= self.every:
            self._told = now
            self._say(summary(sweep))

    def _say(self, line: str) -> None:
        if self._live is not None:
            self._live.console.print(line, markup=False, highlight=False)
        else:
            print(line, flush=True)

    def _table(self, sweep: LocalSweep) -> Any:
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        rank = {"running": 0, "failed": 1, "stopped": 2, "waiting": 3, "finished": 4}
        shown = sorted(sweep.jobs, key=lambda job: rank[job.state])
        room = max(4, self._live.console.height - 8)
        table = Table("run", "state", "progress", "transitions", "evaluation", "left", caption=summary(sweep))
        for job in shown[:room]:
            left = job.seconds_left() if job.state == "running" else None
            table.add_row(
                job.planned.name,
                job.state + (f": {job.reason[:60]}" if job.reason else ""),
                ProgressBar(total=job.total, completed=job.done, width=16),
                f"{job.done:,} / {job.total:,}",
                f"{job.score:,.1f}" if job.score is not None else "",
                duration(left) if left is not None else "",
            )
        if len(shown) > room:
            table.add_row(f"and {len(shown) - room} more", "", "", "", "", "")
        return table


def summary(sweep: LocalSweep) -> str:
    """One line on the whole sweep."""
    counts = dict.fromkeys(("finished", "running", "waiting", "stopped", "failed"), 0)
    for job in sweep.jobs:
        counts[job.state] += 1
    left = sweep.seconds_left() if counts["running"] or counts["waiting"] else None
    words = [f"{number} {state}" for state, number in counts.items() if number]
    return f"{', '.join(words)} of {len(sweep.jobs)}" + (
        f"; {duration(left)} left" if left is not None else ""
    )


def duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 48 * 3600 else f"{seconds / 86400:.1f} days"
