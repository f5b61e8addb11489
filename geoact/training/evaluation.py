"""Evaluation: episodes with a policy that does not learn from them.

Episode i starts from seed + i and depends on nothing else: the policy acts on one observation at a time (a batch would
round differently) and, where it explores, each episode has noise of its own. So the return of an episode is the same
however many others are played, in an evaluation during training, by `geoact evaluate` and in a clip.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from geoact.environments import Env, EnvFactory, compare_spaces, factory
from geoact.environments.checks import reset, step
from geoact.errors import InputError
from geoact.runtime import Policy

MAX_STEPS = 100_000
"""An environment may have no end of its own."""
Stop = Callable[[], bool]
NEVER: Stop = lambda: False  # noqa: E731
Watch = Callable[[int, int], None]
"""Hears now and then how far an evaluation is: the episode's number, from 0, and its steps so far."""
UNWATCHED: Watch = lambda episode, steps: None  # noqa: E731
WATCHED = 1000
"""Steps between two words to the watch."""


@dataclass(frozen=True)
class Evaluation:
    """Returns and lengths of evaluation episodes."""

    returns: np.ndarray
    lengths: np.ndarray
    cut: int = 0
    """Episodes that had not ended after the largest number of steps, and count as far as they went."""

    def row(self) -> dict[str, float]:
        """As metrics."""
        cut = {"eval/cut": float(self.cut)} if self.cut else {}
        return {
            "eval/return_mean": float(self.returns.mean()),
            "eval/return_std": float(self.returns.std()),
            "eval/length_mean": float(self.lengths.mean()),
            **cut,
        }

    def note(self, max_steps: int) -> str | None:
        """What a reader must know besides the numbers."""
        if not self.cut:
            return None
        return (
            f"{self.cut} of {len(self.returns)} episodes had not ended after {max_steps:,} steps and count as far as "
            "they went"
        )


class Stopped(Exception):
    """Somebody asked to stop in the middle of an evaluation."""


def play_episode(
    policy: Policy,
    env: Env,
    seed: int,
    stochastic: bool = False,
    max_steps: int = MAX_STEPS,
    stop: Stop = NEVER,
    watch: Callable[[int], None] = lambda steps: None,
) -> tuple[float, int, bool]:
    """One episode from a seed: its return, its length, and whether it was cut off."""
    name = policy.spec.env
    rng = np.random.default_rng([seed, 1]) if stochastic else None
    obs, total = reset(env, seed, name), 0.0
    for done in range(max_steps):
        if stop():
            raise Stopped
        if done % WATCHED == 0:
            watch(done)
        obs, reward, terminated, truncated = step(env, policy(obs, rng), name)
        total += reward
        if terminated or truncated:
            return total, done + 1, False
    return total, max_steps, True


def require_fit(policy: Policy, env: Env) -> None:
    """Refuse an environment whose sizes or action limits are not those that the policy was trained with."""
    spec = policy.spec
    problem = compare_spaces(spec.obs_dim, spec.action_low, spec.action_high, env)
    if problem is not None:
        raise InputError(f"{problem}: give the environment that it was trained on")


def environment_of(policy: Policy, env: str | None = None, trust: bool = False) -> EnvFactory:
    """What makes the environment of a policy: the one it was trained on, or another that is named.

    A policy file may come from anyone: a name in it that would import a module is refused unless it is trusted.
    """
    given = policy.spec.about.get("env_given")
    if env is None and given:
        raise InputError(
            f"the policy was trained on {given}, which cannot be made from its name: name an environment that fits it "
            "(--env), or use it in Python, geoact.load(path, env=...).evaluate()"
        )
    return factory(env) if env is not None else factory(policy.spec.env, trust=trust)


def play(
    policy: Policy,
    envs: Sequence[Env],
    episodes: int,
    seed: int = 0,
    stochastic: bool = False,
    max_steps: int = MAX_STEPS,
    stop: Stop = NEVER,
    watch: Watch = UNWATCHED,
) -> Evaluation:
    """Episodes one after another on environments that exist, the i-th from seed `seed + i`."""
    for env in envs:
        require_fit(policy, env)
    played = [
        play_episode(
            policy, envs[i % len(envs)], seed + i, stochastic, max_steps, stop, functools.partial(watch, i)
        )
        for i in range(episodes)
    ]
    returns, lengths, cut = zip(*played)
    return Evaluation(np.asarray(returns), np.asarray(lengths), sum(cut))


def evaluate(
    policy: Policy,
    make: EnvFactory,
    episodes: int,
    seed: int = 0,
    stochastic: bool = False,
    max_steps: int = MAX_STEPS,
    stop: Stop = NEVER,
    watch: Watch = UNWATCHED,
) -> Evaluation:
    """Episodes on a fresh environment, the i-th from seed `seed + i`."""
    env = make()
    try:
        return play(policy, [env], episodes, seed, stochastic, max_steps, stop, watch)
    finally:
        env.close()
