"""Timings that a busy machine does not spoil: methods take turns, in CPU time, and only ratios are meant."""

import time
from collections.abc import Callable

import numpy as np


def interleaved(
    methods: dict[str, Callable[[], object]], rounds: int, burst: float = 0.02
) -> dict[str, list[float]]:
    """CPU seconds per call of each method, one number per round, all methods in turn in every round.

    Each turn calls a method for about `burst` seconds.
    """
    calls = {}
    for name, method in methods.items():
        method()  # compiles
        started = time.process_time()
        method()
        calls[name] = max(1, int(burst / max(time.process_time() - started, 1e-6)))
    times: dict[str, list[float]] = {name: [] for name in methods}
    for _ in range(rounds):
        for name, method in methods.items():
            started = time.process_time()
            for _ in range(calls[name]):
                method()
            times[name].append((time.process_time() - started) / calls[name])
    return times


def ratio(times: dict[str, list[float]], name: str, base: str) -> tuple[float, str]:
    """Median and quartiles of one method's time over another's, round by round."""
    low, middle, high = np.quantile(np.array(times[name]) / np.array(times[base]), [0.25, 0.5, 0.75])
    return float(middle), f"{low:.2f} to {high:.2f}"
