"""Where the bare update's time goes: XLA's own trace of SAC's update at HalfCheetah's sizes, by kind of operation.

    taskset -c 1 python -m benchmarks.profile 1      # one core
    taskset -c 0,1 python -m benchmarks.profile 2    # two

Tracing itself costs some time; shares are meant, not milliseconds. On one core the first operations share it with
the end of Python's dispatch, and look long for that. Prints a table, also into `results/profile-<cores>.txt`.
"""

import argparse
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from geoact.training import backend

KINDS = {
    "matrix products": ("ynn_fusion", "dot"),
    "copies": ("copy",),
    "activations, losses, optimisers, targets": ("",),
}
UPDATES = 50


def kind(name: str) -> str:
    return next(kind for kind, starts in KINDS.items() if name.startswith(starts))


def longest(times: dict[str, float]) -> list[tuple[str, float]]:
    return sorted(times.items(), key=lambda item: -item[1])


def operations(folder: str) -> list[tuple[str, float]]:
    """Every operation that XLA ran, with its milliseconds; what contains others is left out."""
    import jax

    trace = next(Path(folder).rglob("*.xplane.pb"))
    lines = [line for plane in jax.profiler.ProfileData.from_file(str(trace)).planes for line in plane.lines]
    found = []
    for line in lines:
        if not line.name.startswith("tf_XLA"):
            continue
        events = sorted(
            (e for e in line.events if "::" not in e.name), key=lambda e: (e.start_ns, -e.duration_ns)
        )
        end = 0.0
        for event in events:
            if event.start_ns >= end:  # not inside the one before
                found.append((event.name, event.duration_ns / 1e6))
                end = event.start_ns + event.duration_ns
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("cores", type=int, choices=(1, 2))
    cores: int = parser.parse_args().cores
    backend.set_threads(1 if cores == 1 else 0)
    import jax

    from benchmarks.cases import ALL, ONE, Spec
    from benchmarks.contestants import Geoact
    from benchmarks.flops import flops, update_products

    contestant = Geoact(Spec("geoact", "update", ONE if cores == 1 else ALL))
    core = contestant.learner.core
    batches = contestant.learner.replay.rows[:256].reshape(1, 256, -1)
    batches[:] = 0.1

    def update() -> None:
        core.update.dispatch(batches, core.updates)
        core.update.tensors()
        core.updates += 1

    for _ in range(UPDATES):
        update()
    started = time.perf_counter()
    for _ in range(UPDATES):
        update()
    plain = 1e3 * (time.perf_counter() - started) / UPDATES
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            started = time.perf_counter()
            for _ in range(UPDATES):
                update()
            whole = 1e3 * (time.perf_counter() - started) / UPDATES
        found = operations(folder)
    busy: dict[str, float] = defaultdict(float)
    by_name: dict[str, float] = defaultdict(float)
    for name, milliseconds in found:
        busy[kind(name)] += milliseconds / UPDATES
        by_name[name] += milliseconds / UPDATES
    work = flops(update_products("sac", 17, 6)) / 1e9
    lines = [
        f"SAC's update, HalfCheetah's sizes, {cores} core(s): {plain:.2f} ms, {whole:.2f} ms while traced",
        f"{work * 1e3:.0f} MFLOP: {work / plain * 1e3:.0f} GFLOP/s",
        "",
        f"{'kind':<44}{'ms':>8}{'share of all work':>20}",
    ]
    total = sum(busy.values())
    lines += [f"{name:<44}{ms:8.3f}{ms / total:20.0%}" for name, ms in longest(busy)]
    lines += [
        f"{'all operations':<44}{total:8.3f}",
        f"{'per core, of the traced time':<44}{'':8}{total / cores / whole:20.0%}",
        "",
        "the longest operations, ms",
    ]
    lines += [f"{name:<44}{ms:8.3f}" for name, ms in longest(by_name)[:30]]
    text = "\n".join(lines) + "\n"
    print(text, end="")
    Path(__file__).with_name("results").mkdir(exist_ok=True)
    (Path(__file__).with_name("results") / f"profile-{cores}.txt").write_text(text)


if __name__ == "__main__":
    main()
