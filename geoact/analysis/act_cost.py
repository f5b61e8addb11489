"""`geoact bench act`: how long the NumPy runtime takes for one observation.

Random policies of a given size, one per algorithm; calls are timed in short bursts. The best burst is what a
quiet machine gives; the median tells how quiet this one was.
"""

import time

import numpy as np

from geoact.config import NORMALIZED_BOUND, REGISTRY
from geoact.runtime import Policy, PolicySpec

BURST = 20


def run(repeats: int, obs_dim: int = 17, action_dim: int = 6) -> dict[str, float]:
    """Measure, print and return the best bursts in microseconds; the sizes are HalfCheetah's."""
    print(
        f"one observation of {obs_dim} numbers, {action_dim} actions: microseconds per call, "
        f"{repeats} bursts of {BURST}"
    )
    print(f"{'':<26} {'best':>7} {'median':>7}")
    best: dict[str, float] = {}
    for algorithm in REGISTRY:
        policy = random_policy(algorithm, obs_dim, action_dim)
        obs = np.random.default_rng(0).standard_normal(obs_dim)
        for name, rng in (("deterministic", None), ("stochastic", np.random.default_rng(0))):
            bursts = [_burst(policy, obs, rng) for _ in range(repeats)]
            label = f"{algorithm} {name}"
            best[label] = min(bursts)
            print(f"{label:<26} {min(bursts):7.1f} {np.median(bursts):7.1f}")
    return best


def random_policy(algorithm: str, obs_dim: int, action_dim: int) -> Policy:
    """A policy of an algorithm's default form and sizes, with random tensors."""
    settings = REGISTRY[algorithm].config.resolve("", action_dim, 10**6)
    rng = np.random.default_rng(0)
    spec = PolicySpec(
        kind=settings.kind,
        head=settings.head(),
        network=settings.actor,
        obs_dim=obs_dim,
        action_low=(-1.0,) * action_dim,
        action_high=(1.0,) * action_dim,
        algorithm=algorithm,
        env="",
        obs_clip=NORMALIZED_BOUND if settings.normalize_obs else None,
    )
    shapes = spec.shapes().items()
    return Policy(spec, {name: rng.uniform(0.01, 0.1, shape).astype(np.float32) for name, shape in shapes})


def _burst(policy: Policy, obs: np.ndarray, rng: np.random.Generator | None) -> float:
    started = time.perf_counter()
    for _ in range(BURST):
        policy(obs, rng)
    return 1e6 * (time.perf_counter() - started) / BURST
