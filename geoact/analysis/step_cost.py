"""`geoact bench step`: the whole vector step against the bare jitted update, interleaved on the same core.

A vector step is: sample a batch, dispatch the update, act, step the environments, store, take over the new
parameters. Both are measured in turns, so that a busy machine slows both alike; only the ratio is meant.
"""

import dataclasses
import time
from collections.abc import Callable

import numpy as np


def run(env: str, algorithm: str, repeats: int, steps: int = 100) -> dict[str, float]:
    """Measure, print and return the medians in milliseconds, and the ratio."""
    from geoact import environments
    from geoact.config import OffPolicyConfig, RunConfig, defaults
    from geoact.errors import InputError
    from geoact.training.off_policy import OffPolicyLearner
    from geoact.training.session import Session
    from geoact.transitions import row_width

    settings = defaults(algorithm)
    if not isinstance(settings, OffPolicyConfig):
        raise InputError(
            f"{algorithm} learns from rollouts, not at every vector step: choose an off-policy algorithm"
        )
    settings = dataclasses.replace(settings, learning_starts=0)
    config = RunConfig(env=env, algorithm=algorithm, settings=settings, timesteps=10**7, threads=1)
    session = Session(config, environments.factory(env))
    learner, core = session.learner, session.learner.core
    assert isinstance(learner, OffPolicyLearner)
    envs, replay, policy, rng, update = core.envs, learner.replay, core.policy, core.rng, core.update
    shape = (settings.updates_per_step, settings.batch_size, row_width(envs.obs_dim, envs.action_dim))
    batches = np.empty(shape, np.float32)
    idle = np.zeros((config.num_envs, envs.action_dim), np.float32)

    def step_environments() -> None:
        step = envs.step(rng.uniform(-1, 1, idle.shape).astype(np.float32))
        replay.add(step.obs, idle, step.reward, step.terminated, step.next_obs)

    def bare_update() -> None:
        update.dispatch(batches, core.updates)
        update.tensors()
        core.updates += 1

    def act() -> None:
        policy.raw(envs.obs, policy.noise(rng, config.num_envs))

    for _ in range(200):
        step_environments()
    core.vector_steps = 1  # past the warm-up
    replay.sample(rng, batches)
    parts: dict[str, Callable[[], object]] = {
        "bare update": bare_update,
        "whole vector step": learner.step,
        "  sample": lambda: replay.sample(rng, batches),
        "  act": act,
        "  step environments, store": step_environments,
    }
    for part in parts.values():
        part()
    times: dict[str, list[float]] = {name: [] for name in parts}
    ratios = []
    for _ in range(repeats):
        for name, part in parts.items():
            started = time.perf_counter()
            for _ in range(steps):
                part()
            times[name].append(1e3 * (time.perf_counter() - started) / steps)
        ratios.append(times["whole vector step"][-1] / times["bare update"][-1])
    session.close()
    print(f"{algorithm} on {env}: {config.num_envs} environments, one thread, {repeats} x {steps} steps")
    for name, values in times.items():
        print(f"{name:<28} {np.median(values):7.3f} ms   ({min(values):.3f} to {max(values):.3f})")
    print(
        f"{'whole step / bare update':<28} {np.median(ratios):7.3f}      ({min(ratios):.3f} to {max(ratios):.3f})"
    )
    return {name.strip(): float(np.median(values)) for name, values in times.items()} | {
        "ratio": float(np.median(ratios))
    }
