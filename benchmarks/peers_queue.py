"""Trains every peer that has no file yet: one process per core, Stable-Baselines3 first and seed by seed.

    .venv-bench/bin/python -m benchmarks.peers_queue --out results/baselines/peers

The runs are those of `geoact sweep baselines`, the same tasks, seeds and numbers of transitions. A file under its
final name is a finished run, so the same command continues where it was stopped.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from geoact.experiments.catalogue import EXPERIMENTS, transitions
from geoact.machine import available_cores

LIBRARIES = ("sb3", "sbx")
ONE_THREAD = {
    "MUJOCO_GL": "disabled",
    "OMP_NUM_THREADS": "1",
    "JAX_PLATFORMS": "cpu",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}


@dataclass(frozen=True)
class PeerRun:
    """One training of a peer."""

    library: str
    algorithm: str
    env: str
    seed: int
    timesteps: int

    @property
    def name(self) -> str:
        return f"{self.library}__{self.algorithm}__{self.env}__s{self.seed}"

    def command(self, out: Path) -> list[str]:
        words = ["benchmarks.peers", "--library", self.library]
        words += ["--algorithm", self.algorithm, "--env", self.env, "--seed", str(self.seed)]
        return [*words, "--timesteps", str(self.timesteps), "--out", str(out)]


def queue() -> Iterator[PeerRun]:
    """All runs in their order; SBX's PPO is not set up."""
    ours = EXPERIMENTS["baselines"]
    for library in LIBRARIES:
        for seed in ours.seeds:
            for label, variant in ours.variants.items():
                for task in ours.tasks:
                    if library == "sb3" or variant.off_policy:
                        steps = transitions(task, ours.num_envs, None, variant.length)
                        yield PeerRun(library, label, task.env, seed, steps)


class Job(Protocol):
    """Something that a module run in a process of its own writes `<name>.json` for."""

    @property
    def name(self) -> str: ...
    def command(self, out: Path) -> list[str]:
        """The module and its arguments."""
        ...


def work_off(jobs: Sequence[Job], out: Path, cores: list[int]) -> list[str]:
    """Do what is not there yet, one job per core at a time; the names of those that failed.

    Asked to stop (Ctrl-C, SIGTERM), it ends the jobs under way and raises KeyboardInterrupt.
    """
    out.mkdir(parents=True, exist_ok=True)
    waiting = [job for job in jobs if not (out / f"{job.name}.json").exists()]
    running: dict[int, tuple[Job, subprocess.Popen[bytes]]] = {}
    failed: list[str] = []
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        while waiting or running:
            for core in cores:
                if core in running and (code := running[core][1].poll()) is not None:
                    job, _ = running.pop(core)
                    print(f"{'finished' if code == 0 else 'failed'} {job.name}", flush=True)
                    failed += [job.name] if code else []
                if core not in running and waiting:
                    job = waiting.pop(0)
                    running[core] = job, begin(job, out, core)
            time.sleep(0.5)
    finally:
        for _, process in running.values():
            process.terminate()
        for _, process in running.values():
            process.wait()
        signal.signal(signal.SIGTERM, before)
    return failed


def begin(job: Job, out: Path, core: int) -> subprocess.Popen[bytes]:
    """A job in a process of its own, on one core."""
    with open(out / f".{job.name}.log", "wb") as log:
        return subprocess.Popen(
            ["nice", "-n", "10", "taskset", "-c", str(core), sys.executable, "-m", *job.command(out)],
            env={**os.environ, **ONE_THREAD},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=0, help="runs at a time; 0: one per core")
    given = parser.parse_args()
    cores = available_cores()
    failed = work_off(list(queue()), given.out, cores[: given.jobs] if given.jobs else cores)
    for name in failed:
        print(f"failed: {name}, see {given.out / f'.{name}.log'}")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
