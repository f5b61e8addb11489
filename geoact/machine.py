"""What the machine and its system offer, asked in one place, with an answer on every platform."""

import os


def available_cores() -> list[int]:
    """The cores that this process may use, by number; all where the system does not tell (macOS, Windows)."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))
