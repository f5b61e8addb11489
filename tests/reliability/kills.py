"""SIGKILL at random moments: `python tests/reliability/kills.py [--kills 100] [--out FILE]`.

For each case (every algorithm on the toy, GAC with every ingredient on a MuJoCo and a DMControl task) an
uninterrupted control run, then runs that are killed again and again, each time resumed with `geoact resume`, until
they have had their share and may end. Four in ten kills wait for a checkpoint to be half-written, the others for a
random step. Every run must end with its control's fingerprint (parameters, targets, optimisers, replay, generator,
episodes, policies) and its metrics, row for row. Ten uninterrupted runs of GAC must have one fingerprint.

The trainings are processes of their own, forked from this one, which has imported everything and computed
nothing: a start then costs a third. Two run at a time.
"""

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent.parent), str(HERE)]

from geoact import cli, environments  # noqa: E402
from geoact.storage.runs import Run, find_runs  # noqa: E402
from geoact.training import resuming  # noqa: E402
from tests.reliability import harness  # noqa: E402

BEFORE_THE_FORKS = (cli, resuming)
"""Imported, with all that they need, so that a start costs little."""

LENGTH = (
    *("--timesteps", "1200", "--checkpoint-steps", "60", "--log-points", "30"),
    *("--evaluations", "3", "--eval-steps", "200"),
)


class Case(NamedTuple):
    """What is trained, where."""

    algorithm: str
    env: str = "toys:Toy-v0"

    @property
    def name(self) -> str:
        return f"{self.algorithm} {self.env.rpartition(':')[2].replace('/', '-')}"


CASES = (
    *map(Case, harness.SETTINGS),
    Case("gac+", "HalfCheetah-v5"),
    Case("gac+", "dm_control/walker-run"),
)
KILLS_PER_RUN = 6


def fork(words: list[str], log: Path) -> int:
    """A process that runs a geoact command; its id."""
    child = os.fork()
    if child:
        return child
    try:
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(out, 1)
        os.dup2(out, 2)
        os._exit(cli.main(words))
    except BaseException as error:
        os.write(2, repr(error).encode())
        os._exit(70)


def ended(process: int) -> int | None:
    """The exit code of a process, None while it runs."""
    done, status = os.waitpid(process, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if done else None


def wait(process: int) -> int:
    while (code := ended(process)) is None:
        time.sleep(0.02)
    return code


def words(folder: Path, case: Case) -> list[str]:
    return [*harness.train_command(folder, *case)[3:], *LENGTH]


def whole(folder: Path, case: Case) -> Run:
    """A run in one piece."""
    folder.mkdir(parents=True)
    code = wait(fork(words(folder, case), folder / "log"))
    if code:
        raise SystemExit(f"a control run ended with code {code}: {(folder / 'log').read_text()}")
    return harness.only_run(folder)


@dataclass
class Killed:
    """What became of one run that was killed."""

    case: Case
    kills: int = 0
    in_checkpoint: int = 0
    steps: list[int] = field(default_factory=list)
    fingerprint: str = ""
    rows: list[dict[str, float]] = field(default_factory=list)
    problem: str = ""


def kill_and_resume(folder: Path, case: Case, kills: int, rng: random.Random) -> Killed:
    """A run that is killed `kills` times, unless it manages to end before."""
    result = Killed(case)
    folder.mkdir(parents=True)
    log = folder / "log"
    process = fork(words(folder, case), log)
    run: Run | None = None
    while result.kills < kills:
        writing = rng.random() < 0.4
        before = _step(run)
        # Not far, so that all kills find a run that is still going.
        target = before + rng.randrange(0, max(2 * (1200 - before) // (kills - result.kills + 1), 8))
        time.sleep(rng.random() * 0.3 if rng.random() < 0.2 else 0)  # sometimes while it is still starting
        early = rng.random() < 0.1
        while (code := ended(process)) is None:
            run = run or next(iter(find_runs(folder)), None)
            if run is not None and (early or _reached(run, target, writing)):
                break
            time.sleep(0.004)
        if code is not None:
            break
        time.sleep(0 if writing else rng.random() * 0.02)
        result.in_checkpoint += run is not None and _half_written(run)
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        result.kills += 1
        result.steps.append(_step(run))
        assert run is not None
        process = fork(["resume", str(run.path)], log)
        code = None
    else:
        code = wait(process)
    if code != 0 or run is None:
        result.problem = f"ended with code {code}: {log.read_text()[-500:]}"
        return result
    result.fingerprint, result.rows = harness.fingerprint(run), harness.metrics(run)
    left = [p.name for p in run.path.rglob(".*")]
    if left or run.status() != {"state": "finished", "timesteps": 1200, "total": 1200}:
        result.problem = f"left behind: {left}, status {run.status()}"
    shutil.rmtree(folder)
    print(f"{case.name}: killed at {result.steps}", file=sys.stderr, flush=True)
    return result


def _step(run: Run | None) -> int:
    return int(run.status()["timesteps"]) if run is not None else 0


def _half_written(run: Run) -> bool:
    return any(run.path.glob("checkpoints/.step_*.tmp"))


def _reached(run: Run, target: int, writing: bool) -> bool:
    if writing and not _half_written(run):
        return False
    return _step(run) >= target


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    memory = Path("/dev/shm")
    base = Path(tempfile.mkdtemp(prefix="geoact-kills-", dir=memory if memory.is_dir() else None))
    os.environ.setdefault("GEOACT_CACHE", str(base / "cache"))
    started = time.monotonic()
    environments.available()  # DMControl and MuJoCo are imported before the forks, too
    runs = -(-given.kills // (KILLS_PER_RUN * len(CASES)))
    lines: list[str] = []
    bad = 0
    try:
        with ThreadPoolExecutor(2) as pool:
            controls = dict(zip(CASES, pool.map(lambda c: whole(base / f"control {c.name}", c), CASES)))
            jobs = [
                pool.submit(
                    kill_and_resume,
                    base / f"{case.name} {i}",
                    case,
                    KILLS_PER_RUN,
                    random.Random(f"{given.seed} {case.name} {i}"),
                )
                for i in range(runs)
                for case in CASES
            ]
            results = [job.result() for job in jobs]
            plain = CASES[0]
            again = pool.map(lambda i: whole(base / f"again {i}", plain), range(given.repeats - 1))
            prints = {harness.fingerprint(run) for run in [controls[plain], *again]}
        bad += len(prints) != 1
        lines.append(f"{given.repeats} uninterrupted runs of {plain.name}: {len(prints)} fingerprint(s)")
        lines.append(
            f"{'case':<28} {'runs':>5} {'kills':>6} {'in a checkpoint':>16} {'equal':>6} {'rows':>5}"
        )
        for case, control in controls.items():
            mine = [r for r in results if r.case == case]
            want, rows = harness.fingerprint(control), harness.metrics(control)
            equal = sum(not r.problem and r.fingerprint == want and r.rows == rows for r in mine)
            bad += equal != len(mine)
            lines.append(
                f"{case.name:<28} {len(mine):>5} {sum(r.kills for r in mine):>6} "
                f"{sum(r.in_checkpoint for r in mine):>16} {equal:>6} {len(rows):>5}"
            )
            lines += [f"  {case.name}: {r.problem}" for r in mine if r.problem]
        lines.append(f"kills: {sum(r.kills for r in results)}, {time.monotonic() - started:.0f} s")
        lines.append("all equal to their controls" if not bad else "NOT ALL EQUAL")
    finally:
        shutil.rmtree(base, ignore_errors=True)
    text = "\n".join(lines) + "\n"
    print(text, end="")
    if given.out is not None:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(text)
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
