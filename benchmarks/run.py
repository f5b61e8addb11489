"""The benchmark: every contestant of a group in its own pinned process, taking turns on the same cores.

    python -m benchmarks.run [--cases a b ...] [--quick]

All processes of a group are started, build, compile and then sleep; the driver wakes one at a time for a burst of
about a second, round after round, so that whatever else the machine does hits all of them alike. The first round
is thrown away. Raw numbers go to benchmarks/results/<case>.json, tables and figure to docs/performance.md.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any, Self

from benchmarks import report, returns
from benchmarks.cases import ALL, CASES, Case, Cores, Spec, quick
from geoact.storage.files import write_bytes

ROOT = Path(__file__).parent.parent
PACKAGES = ("geoact", "jax", "jaxlib", "numpy", "torch", "stable-baselines3", "sbx-rl", "gymnasium", "mujoco")
PATIENCE = 600.0
"""Seconds after which a silent process is given up."""
PAUSE = 0.1
"""Seconds between turns: threads of BLAS and OpenMP wait awake for some hundredths of a second before they sleep."""


class Died(Exception):
    """A contestant's process ended, or does not answer; the message says why."""


def environment(spec: Spec, cores: Cores) -> dict[str, str]:
    """The child's environment: on one core one thread, else the library's own choice."""
    env = os.environ | {"MUJOCO_GL": "disabled", "JAX_PLATFORMS": "cpu"}
    if len(cores) == 1:
        env |= dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        if not spec.contestant.startswith("geoact"):  # geoact sets its own
            env["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    return env


def pinned(cores: Cores) -> list[str]:
    """In front of a command: it runs on these cores only, from its first instruction."""
    return ["taskset", "--cpu-list", ",".join(map(str, cores))]


class Worker:
    """A contestant's process (worker.py)."""

    def __init__(self, spec: Spec, cores: Cores, root: Path = ROOT):
        """`root`: the tree whose geoact is measured."""
        given = json.dumps(dataclasses.asdict(spec) | {"cores": cores})
        self.stderr: IO[str] = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed by `end`)
        self.process = subprocess.Popen(
            [*pinned(cores), sys.executable, "-m", "benchmarks.worker", given],
            cwd=root,
            env=environment(spec, cores) | {"PYTHONPATH": str(root)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.stderr,
            text=True,
        )

    def ask(self, seconds: float) -> None:
        """Begin a burst."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it is dead: `answer` says so
            print(seconds, file=self.process.stdin, flush=True)

    def answer(self) -> dict[str, Any]:
        """Wait for what it says next."""
        assert self.process.stdout is not None
        if not select.select([self.process.stdout], [], [], PATIENCE)[0]:
            raise Died(f"silent for {PATIENCE:.0f} s")
        line = self.process.stdout.readline()
        if not line:
            raise Died(self.last_words())
        return json.loads(line)

    def last_words(self) -> str:
        self.process.wait()
        self.stderr.seek(0)
        lines = self.stderr.read().strip().splitlines()
        return f"exit code {self.process.returncode}: {lines[-1] if lines else 'nothing said'}"

    def cpu(self) -> float:
        """Processor seconds used so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()
        self.stderr.close()


class Group:
    """The members of a group and their processes; those that die are out, with a reason."""

    def __init__(self, specs: list[Spec]):
        self.members: dict[Spec, list[Worker]] = {}
        self.failed: dict[Spec, str] = {}
        self.workers: dict[tuple[Spec, int], Worker] = {}
        for spec in specs:
            # Two runs at once are one of them and another: the processes are shared.
            alone = dataclasses.replace(spec, processes=1)
            for i in range(spec.processes):
                cores = (ALL[i % len(ALL)],) if spec.what == "parallel" else spec.cores
                if (alone, i) not in self.workers:
                    self.workers[alone, i] = Worker(alone, cores)
            self.members[spec] = [self.workers[alone, i] for i in range(spec.processes)]
        self.idle = 0.0
        """The largest share of a core that the processes used whose turn it was not."""

    def __enter__(self) -> Self:
        ready: set[Worker] = set()
        for spec, workers in list(self.members.items()):
            try:
                for worker in workers:
                    if worker not in ready:
                        worker.answer()
                        ready.add(worker)
            except Died as reason:
                self.failed[spec] = str(reason)
                self.drop(spec)
        return self

    def drop(self, spec: Spec) -> None:
        del self.members[spec]
        say(f"{spec.contestant} {spec.what} is out: {self.failed[spec]}")

    def __exit__(self, *_: object) -> None:
        for worker in self.workers.values():
            worker.end()

    def turn(self, spec: Spec, seconds: float) -> float | None:
        """One burst: seconds per operation (memory: bytes), or None where a process died."""
        workers = self.members[spec]
        others = [w for w in self.workers.values() if w not in workers and w.process.poll() is None]
        time.sleep(PAUSE)
        before, started = sum(w.cpu() for w in others), time.perf_counter()
        for worker in workers:
            worker.ask(seconds)
        answers: list[dict[str, Any]] = []
        for worker in workers:  # all of them, so that none is left with an answer nobody read
            try:
                answers.append(worker.answer())
            except Died as reason:
                self.failed[spec] = str(reason)
        if spec in self.failed:
            self.drop(spec)
            return None
        used = sum(w.cpu() for w in others if w.process.poll() is None) - before
        self.idle = max(self.idle, used / (time.perf_counter() - started))
        if spec.what == "memory":
            return answers[0]["peak"]
        return 1.0 / sum(answer["count"] / answer["seconds"] for answer in answers)


def measure_group(name: str, case: Case, specs: list[Spec]) -> dict[str, Any]:
    """All rounds of one group; the first is thrown away."""
    say(f"{name}: starting {', '.join(spec.contestant for spec in specs)}")
    values: dict[Spec, list[float]] = {spec: [] for spec in specs}
    with Group(specs) as group:
        warm_up = 0 if specs[0].what == "memory" else 1
        for number in range(case.rounds + warm_up):
            for spec in list(group.members):
                value = group.turn(spec, case.seconds)
                if value is not None and number >= warm_up:
                    values[spec].append(value)
            if number >= warm_up:
                progress(name, number - warm_up + 1, case.rounds, values)
        return record(values, group.failed, group.idle)


def start_seconds(spec: Spec, folder: Path) -> float:
    """The whole command, from start to exit, for one update: what a peer does beside it is in start.py.

    Exit is included for all, and geoact's run directory and its last checkpoint as well. A first start finds no
    compiled programs; a second one finds those of the first.
    """
    cache = folder / "cache"
    if spec.what == "first start":
        shutil.rmtree(cache, ignore_errors=True)
    command = [sys.executable, "-m", "benchmarks.start", spec.contestant]
    if spec.contestant == "geoact":
        geoact = str(Path(sys.executable).with_name("geoact"))
        runs_dir = str(folder / f"runs-{time.monotonic_ns()}")
        options = ["--algorithm", "sac", "--timesteps", "16", "--evaluations", "0", "--runs-dir", runs_dir]
        command = [geoact, "train", spec.env, *options]
    started = time.perf_counter()
    done = subprocess.run(
        [*pinned(spec.cores), *command],
        cwd=ROOT,
        env=environment(spec, spec.cores) | {"GEOACT_CACHE": str(cache)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise Died(f"exit code {done.returncode}: {(done.stderr.strip() or 'nothing said').splitlines()[-1]}")
    return time.perf_counter() - started


def measure_starts(name: str, case: Case, specs: list[Spec]) -> dict[str, Any]:
    """Fresh processes, in turn. The first round is thrown away: it reads the libraries from disk."""
    say(f"{name}: starting {', '.join(f'{spec.contestant} ({spec.what})' for spec in specs)}")
    values: dict[Spec, list[float]] = {spec: [] for spec in specs}
    failed: dict[Spec, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(case.rounds + 1):
            for spec in specs:
                if spec in failed:
                    continue
                try:
                    seconds = start_seconds(spec, Path(folder))
                except Died as reason:
                    failed[spec] = str(reason)
                    say(f"{spec.contestant} {spec.what} is out: {reason}")
                    continue
                if number:
                    values[spec].append(seconds)
            if number:
                progress(name, number, case.rounds, values)
    return record(values, failed, 0.0)


def record(values: dict[Spec, list[float]], failed: dict[Spec, str], idle: float) -> dict[str, Any]:
    if idle > 0.02:
        say(f"note: processes whose turn it was not used {idle:.0%} of a core")
    return {
        "measurements": [dataclasses.asdict(s) | {"rounds": v} for s, v in values.items() if s not in failed],
        "failed": [dataclasses.asdict(spec) | {"reason": reason} for spec, reason in failed.items()],
        "idle_share": round(idle, 4),
    }


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def progress(name: str, number: int, rounds: int, values: dict[Spec, list[float]]) -> None:
    last = ", ".join(f"{report.label(s.contestant)} {v[-1]:.4g}" for s, v in values.items() if v)
    say(f"{name}: round {number}/{rounds}: {last}")


def measure(letter: str, case: Case) -> dict[str, Any]:
    """A whole case, as it is written to disk."""
    parts, found = len(case.groups), []
    load = os.getloadavg()[0]
    for i, specs in enumerate(case.groups):
        first = specs[0]
        name = f"{letter} {case.title} {i + 1}/{parts} ({first.env}, {len(first.cores)} core(s))"
        found.append((measure_starts if letter == "d" else measure_group)(name, case, specs))
    return {
        "case": letter,
        "title": case.title,
        "date": time.strftime("%Y-%m-%d %H:%M"),
        "cpu": returns.machine(),
        "cores": list(ALL),
        "load_before": round(load, 2),
        "seconds_per_turn": case.seconds,
        "versions": {package: version(package) for package in PACKAGES},
        "groups": found,
    }


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        self.exit(2, f"benchmarks: {message}\n")


def main() -> None:
    parser = Parser(prog="python -m benchmarks.run", description=(__doc__ or "").splitlines()[0])
    known = (*CASES, "i")
    words = f"any of {' '.join(known)}; i takes hours"
    parser.add_argument("--cases", nargs="*", default=[], metavar="CASE", help=words)
    parser.add_argument("--quick", action="store_true", help="a smoke test into a temporary folder")
    args = parser.parse_args()
    if unknown := [case for case in args.cases if case not in known]:
        parser.error(f"unknown case {unknown[0]!r}: choose from {', '.join(known)}")
    if len(ALL) < 2:
        parser.error("two cores are compared with one: allow this process two")
    results, page, front = (
        ROOT / "benchmarks" / "results",
        ROOT / "docs" / "performance.md",
        ROOT / "README.md",
    )
    if args.quick:
        results = Path(tempfile.mkdtemp(prefix="bench-"))
        page, front = (Path(shutil.copy(each, results)) for each in (page, front))
    for letter in args.cases or CASES:
        if letter == "i":
            try:
                failed = returns.measure(results / "returns", list(ALL))
            except KeyboardInterrupt:
                parser.exit(130, "stopped: the same command continues it\n")
            if failed:
                say(f"failed: {', '.join(failed)}: see the logs beside the results")
            continue
        case = quick(CASES[letter]) if args.quick else CASES[letter]
        started = time.monotonic()
        text = json.dumps(measure(letter, case), indent=1)
        results.mkdir(exist_ok=True)
        write_bytes(results / f"{letter}.json", (text + "\n").encode())
        say(f"{letter}: {results / letter}.json after {time.monotonic() - started:.0f} s")
    report.write(results, page, front)
    say(f"tables: {page}")


if __name__ == "__main__":
    main()
