"""The form every algorithm has: a frozen record of pure functions over a state pytree."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jax import Array

State = Any
"""A pytree of arrays: parameters, targets, optimisers."""


@dataclass(frozen=True)
class Algorithm:
    """Pure functions; the training loop jits them and owns everything that changes."""

    init: Callable[[Array], State]
    """key -> state"""
    act: Callable[[State, Array, Array | None], Array]
    """(state, obs, noise) -> action before clipping, in units of the box [-1, 1]; deterministic without noise"""
    noise: Callable[[Array, tuple[int, ...]], Array]
    """(key, batch shape) -> the noise that `act` takes"""
    update: Callable[[State, Any, Array], tuple[State, dict[str, Array]]]
    """(state, data, key) -> (state, metrics). Off-policy: packed rows [updates, batch, columns], one gradient
    update for each, the metrics those of the last one. On-policy: a rollout (ppo.py), learned from whole."""
    policy: Callable[[State], dict[str, Array]]
    """state -> the tensors of a policy file: all that acting needs"""
