"""EnvPool behind our interface, with a stand-in for its library; the real one is tested with training's semantics."""

import sys
import types
from typing import Any

import numpy as np
import pytest

from geoact import environments
from geoact.environments.pool import EnvPool
from geoact.errors import InputError


class Pool:
    """Two observations of Reach, stepped by nobody."""

    def __init__(self, width: int = 2):
        self.width = width
        self.closed = False

    def reset(self, ids: np.ndarray | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        chosen = np.arange(3) if ids is None else ids
        return np.repeat(chosen[:, None] + 1.0, self.width, axis=1), {}

    def step(self, action: np.ndarray) -> tuple[Any, ...]:
        assert action.dtype == np.float64
        return np.ones((3, self.width)), action[:, 0], np.zeros(3, bool), np.ones(3, bool), {}

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, Any]]]:
    calls: list[tuple[str, dict[str, Any]]] = []

    def make(name: str, **options: Any) -> Pool:
        calls.append((name, options))
        return Pool(2 if name != "WalkerRun-v1" else 5)

    library: Any = types.ModuleType("envpool")
    library.make, library.list_all_envs = make, lambda: ["tests.probes:Reach-v0", "WalkerRun-v1"]
    monkeypatch.setitem(sys.modules, "envpool", library)
    return calls


REACH = environments.factory("tests.probes:Reach-v0")


def test_only_what_ended_begins_anew(made: list[tuple[str, dict[str, Any]]]):
    pool = EnvPool("tests.probes:Reach-v0", REACH, 3, 2**31 + 5)
    assert made == [("tests.probes:Reach-v0", {"env_type": "gymnasium", "num_envs": 3, "seed": 5})]
    obs = pool.reset([None] * 3, np.array([True, False, True]))
    np.testing.assert_array_equal(obs, [[1.0, 1.0], [0.0, 0.0], [3.0, 3.0]])
    _, reward, terminated, truncated = pool.step(np.full((3, 2), 0.5, np.float32))
    assert reward.tolist() == [0.5] * 3 and not terminated.any() and truncated.all()
    assert pool.step_some({0: np.zeros(2)}) is None
    pool.close()


@pytest.mark.usefixtures("made")
def test_what_envpool_does_not_have_or_has_otherwise_is_refused():
    with pytest.raises(InputError, match="EnvPool does not have Hopper-v9"):
        EnvPool("Hopper-v9", REACH, 3, 0)
    with pytest.raises(InputError, match=r"observations of shape \(5,\), walker-run of shape \(2,\)"):
        EnvPool("walker-run", REACH, 3, 0)


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "envpool", None)
    with pytest.raises(InputError, match=r"geoact\[envpool\]"):
        EnvPool("tests.probes:Reach-v0", REACH, 3, 0)
