"""One contestant in its own process: builds, says it is ready, then sleeps until asked for a burst.

    python -m benchmarks.worker '{"contestant": "sbx", "what": "update", ...}'

A line on standard input is a number of seconds; the answer is a line of JSON: how many operations were done and
how long they took. Whatever the libraries print goes to standard error.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.cases import Spec


def burst(run: Callable[[int], object], seconds: float) -> tuple[int, float]:
    """Repeat an operation for about so long: how often, and how long it really took."""
    count, chunk, elapsed, started = 0, 1, 0.0, time.perf_counter()
    while elapsed < seconds:
        run(chunk)
        count += chunk
        elapsed = time.perf_counter() - started
        chunk = max(1, int(count / elapsed * seconds / 10))  # the clock is read some ten times, not more
    return count, elapsed


def peak_memory() -> int:
    """The most memory this process ever had, in bytes."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) * 1024


def main() -> None:
    given = json.loads(sys.argv[1])
    spec = Spec(**given | {"cores": tuple(given["cores"])})
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(**answer: object) -> None:
        print(json.dumps(answer), file=answers, flush=True)

    if spec.contestant.startswith("geoact"):
        from geoact.training import backend

        backend.set_threads(1 if len(spec.cores) == 1 else 0)  # as `geoact train` does, before NumPy is there
    from benchmarks.contestants import operation

    run = operation(spec)
    say(ready=True)
    for line in sys.stdin:
        count, seconds = burst(run, float(line))
        say(count=count, seconds=seconds, peak=peak_memory())


if __name__ == "__main__":
    main()
