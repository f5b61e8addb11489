"""This tree beside an older one: the same work in turns, so that a change of speed is seen whatever the machine does.

    git worktree add ../before COMMIT
    python -m benchmarks.before ../before --out results/speed/before_after.txt

Two processes for each thing measured, one from either tree, both pinned, take turns for a second each; a ratio is taken
within a round, the first round is thrown away. Measured are the vector step and the bare update of SAC and GAC on
HalfCheetah, on one core and on two.
"""

import argparse
import time
from pathlib import Path
from statistics import median

from benchmarks.cases import ONE_AND_ALL, Cores, Spec
from benchmarks.run import PAUSE, ROOT, Worker


def compare(spec: Spec, cores: Cores, before: Path, rounds: int, seconds: float) -> list[float]:
    """Time per operation of this tree over that of the older one, round by round."""
    workers = [Worker(spec, cores, root) for root in (before, ROOT)]
    try:
        for worker in workers:
            worker.answer()
        ratios: list[float] = []
        for _ in range(rounds + 1):
            times: list[float] = []
            for worker in workers:
                time.sleep(PAUSE)
                worker.ask(seconds)
                answer = worker.answer()
                times.append(answer["seconds"] / answer["count"])
            ratios.append(times[1] / times[0])
        return ratios[1:]
    finally:
        for worker in workers:
            worker.end()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("before", type=Path, help="the older tree")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    lines = ["time now / time before: median (smallest to largest) of the rounds"]
    for cores in ONE_AND_ALL:
        for contestant in ("geoact", "geoact-gac"):
            for what in ("vector step", "update"):
                spec = Spec(contestant, what, cores)
                found = compare(spec, cores, args.before.resolve(), args.rounds, args.seconds)
                name = f"{'GAC' if contestant == 'geoact-gac' else 'SAC'} {what}, {len(cores)} core(s)"
                lines.append(f"{name:28} {median(found):.3f} ({min(found):.3f} to {max(found):.3f})")
                print(lines[-1], flush=True)
    if args.out is not None:
        args.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
