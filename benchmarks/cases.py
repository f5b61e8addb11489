"""What is measured, as data: every measurement is a `Spec`, every case a list of groups of them.

The specs of a group take turns on the same cores within seconds, so that only ratios inside a group are meant.
"""

import dataclasses
from dataclasses import dataclass

from geoact.machine import available_cores

Cores = tuple[int, ...]

ALL: Cores = tuple(available_cores()[:2])
ONE: Cores = ALL[-1:]  # the first core has the interrupts
ONE_AND_ALL = tuple(dict.fromkeys((ONE, ALL)))
"""Where there is one core only, nothing is measured twice."""


@dataclass(frozen=True)
class Spec:
    """One contestant at one thing, in a process of its own."""

    contestant: str
    """geoact, geoact-gac, sb3, sbx, torch; for the bare products the library that multiplies."""
    what: str
    """vector step, update, predict, rollout (PPO's, with learning from it), products, memory, first start, second
    start, or parallel: the vector step of runs with a core each."""
    cores: Cores = ONE
    env: str = "HalfCheetah-v5"
    envs: int = 8
    batch: int = 256
    width: int = 256
    updates: int = 1
    """Updates per vector step."""
    buffer: int = 1_000_000
    filled: int = 20_000
    """Random transitions in the buffer when the measurement begins."""
    observations: int = 1
    """How many at once: predict."""
    processes: int = 1
    """Runs at the same time; their rates are added."""


@dataclass(frozen=True)
class Case:
    """Some groups, how often each of their members has its turn, and how long a turn is."""

    title: str
    groups: list[list[Spec]]
    rounds: int = 5
    seconds: float = 0.6


OFF_POLICY = ("geoact", "geoact-gac", "sb3", "sbx", "torch")
RIVALS = ("geoact", "sb3", "sbx")
TASKS = ("HalfCheetah-v5", "Humanoid-v5", "quadruped-walk")
GROWTH: dict[str, tuple[int, ...]] = {
    "batch": (256, 1024, 4096),
    "width": (256, 512, 1024),
    "envs": (1, 8, 64),
    "updates": (1, 8, 32),
    "filled": (100_000, 1_000_000),
}


def _growth() -> list[list[Spec]]:
    """Sizes of the networks show in the bare update, all else in the vector step."""
    changed: dict[Spec, None] = {}  # where all begin, they are the same
    for name, values in GROWTH.items():
        base = Spec("", "update" if name in ("batch", "width") else "vector step")
        changed |= dict.fromkeys(dataclasses.replace(base, **{name: value}) for value in values)
    return [[dataclasses.replace(spec, contestant=rival) for rival in ("geoact", "sbx")] for spec in changed]


CASES = {
    "a": Case(
        "whole vector step",
        [[Spec(c, "vector step", cores, env) for c in OFF_POLICY] for cores in ONE_AND_ALL for env in TASKS],
    ),
    "b": Case(
        "bare update",
        [
            [Spec(c, "update", cores) for c in OFF_POLICY]
            + [Spec(library, "products", cores) for library in ("numpy", "torch", "jax")]
            for cores in ONE_AND_ALL
        ],
        rounds=7,
    ),
    "c": Case(
        "predict",
        [
            [Spec(c, "predict", observations=n) for c in ("geoact", "geoact-gac", "sb3", "sbx")]
            for n in (1, 8)
        ],
        rounds=7,
        seconds=0.3,
    ),
    "d": Case(
        "from command to first update",
        [[Spec(c, start, ALL) for c in RIVALS for start in ("first start", "second start")]],
    ),
    "e": Case(
        "parallel runs",
        [[Spec(c, "parallel", ALL, processes=n) for c in RIVALS for n in (1, 2, 4)]],
        seconds=1.0,
    ),
    "f": Case(
        "PPO",
        [
            [Spec(c, "rollout", env=env) for c in ("geoact", "sb3", "torch")]
            for env in ("HalfCheetah-v5", "Hopper-v5")
        ],
        seconds=1.0,
    ),
    "g": Case(
        "growth",
        _growth(),
        rounds=3,
        seconds=0.4,
    ),
    "h": Case(
        "peak memory",
        [[Spec(c, "memory", ALL, filled=1_000_000) for c in RIVALS]],
        rounds=1,
        seconds=2.0,
    ),
}


def quick(case: Case) -> Case:
    """A smoke test: every group once, with next to nothing in it."""
    groups = [
        [dataclasses.replace(spec, filled=spec.filled // 100) for spec in group] for group in case.groups
    ]
    return dataclasses.replace(case, groups=groups, rounds=1, seconds=0.05)
