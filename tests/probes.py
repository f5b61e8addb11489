"""Small environments with known answers, registered under `tests.probes:<id>`."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

TARGET = np.array([0.3, -0.4], np.float32)


class Probe(gym.Env):
    """A vector observation, a box action; subclasses say what happens."""

    observation_space: spaces.Space = spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space: spaces.Space = spaces.Box(-1.0, 1.0, (2,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.count = 0
        return self.observe(), {}

    def observe(self) -> Any:
        return np.zeros(2, np.float32)

    def step(self, action: np.ndarray) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.count += 1
        return self.observe(), 0.0, True, False, {}


class Reach(Probe):
    """One step; the reward is minus the squared distance to a target of length 0.5: the best return is 0."""

    def step(self, action: np.ndarray) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self.observe(), -float(np.sum((action - TARGET) ** 2)), True, False, {}


class Situations(Probe):
    """Four situations, seen as one-hot vectors, whose values are known for any policy and discount:

    0  one step, reward 1, terminates         1
    1  one step, reward 0, goes on to 2       gamma
    2  one step, reward 1, terminates         1
    3  one step, reward 1, cut off, and goes on as 3 would: 1 / (1 - gamma), though each episode has one step
    """

    observation_space = spaces.Box(0.0, 1.0, (4,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        self.situation = 0
        _, info = super().reset(seed=seed)
        self.situation = int(self.np_random.choice([0, 1, 3]))
        return self.observe(), info

    def observe(self) -> Any:
        return np.eye(4, dtype=np.float32)[self.situation]

    def step(self, action: np.ndarray) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self.situation == 1:
            self.situation = 2
            return self.observe(), 0.0, False, False, {}
        return self.observe(), 1.0, self.situation != 3, self.situation == 3, {}


class Counter(Probe):
    """Observes (environment's episode tag, step in the episode); ends by termination or truncation by its seed."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = spaces.Box(np.array([-2.0, 0.0]), np.array([2.0, 10.0]), (2,), np.float64)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        self.received: list[np.ndarray] = []
        self.tag = 0
        result = super().reset(seed=seed)
        self.tag = int(self.np_random.integers(1_000_000))
        self.length = 1 + self.tag % 5
        return self.observe(), result[1]

    def observe(self) -> Any:
        return np.array([self.tag, self.count], np.float64)

    def step(self, action: np.ndarray) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.count += 1
        self.received.append(action)
        ended = self.count >= self.length
        terminates = self.tag % 2 == 0
        return self.observe(), float(self.count), ended and terminates, ended and not terminates, {}


class Endless(Probe):
    """Never ends, rewards nothing."""

    def step(self, action: np.ndarray) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self.observe(), 0.0, False, False, {}


class BrokenObservation(Endless):
    """Gives a NaN in its seventh step."""

    def observe(self) -> Any:
        return np.zeros(2, np.float32)

    def step(self, action: np.ndarray) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.count += 1
        value = np.nan if self.count == 7 else 0.0
        return np.array([0.0, value], np.float32), 0.0, False, False, {}


class BrokenReward(Endless):
    """Gives an infinite reward in its seventh step."""

    def step(self, action: np.ndarray) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.count += 1
        return self.observe(), np.inf if self.count == 7 else 0.0, False, False, {}


class BrokenReset(Endless):
    """Gives a NaN at reset."""

    def observe(self) -> Any:
        return np.full(2, np.nan, np.float32)


class OldReset(Endless):
    """In the words of the old gym."""

    def reset(self) -> Any:  # type: ignore[override]
        return np.zeros(2, np.float32)


class Image(Endless):
    observation_space = spaces.Box(0, 255, (8, 8, 3), np.uint8)


class Unbounded(Endless):
    action_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)


class Nested(Endless):
    """A Dict of vectors flattens to four numbers."""

    observation_space = spaces.Dict({"a": spaces.Box(-1.0, 1.0, (3,)), "b": spaces.Box(-1.0, 1.0, (1,))})

    def observe(self) -> Any:
        return {"a": np.array([1.0, 2.0, 3.0], np.float32), "b": np.array([4.0], np.float32)}


class Words(Endless):
    observation_space = spaces.Dict({"a": spaces.Text(5)})


for probe in (
    Reach,
    Situations,
    Counter,
    Endless,
    BrokenObservation,
    BrokenReward,
    BrokenReset,
    OldReset,
    Image,
    Unbounded,
    Nested,
    Words,
):
    if f"{probe.__name__}-v0" not in gym.registry:
        gym.register(f"{probe.__name__}-v0", entry_point=f"tests.probes:{probe.__name__}")
