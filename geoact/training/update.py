"""An algorithm's update, compiled, with the state that it changes."""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from geoact.algorithms.record import Algorithm, State
from geoact.runtime import Tensors

Metrics = dict[str, float]
VALUE = "value"


class Program(NamedTuple):
    """An update as a compiled function of plain arrays."""

    step: Callable[..., tuple[list[jax.Array], jax.Array, jax.Array]]
    """(leaves of the state, data, key, number of the update) -> leaves, policy as one vector, value and metrics"""
    names: list[str]
    """Of the metrics; known once the function has been traced."""


@functools.lru_cache(maxsize=16)
def compiled(algorithm: Algorithm, structure: Any) -> Program:
    """The program of an algorithm, for states of this structure; a process that trains it again has it already."""
    names: list[str] = []

    def step(
        leaves: list[jax.Array], data: Any, key: jax.Array, count: jax.Array
    ) -> tuple[list[jax.Array], jax.Array, jax.Array]:
        before = jax.tree.unflatten(structure, leaves)
        state, value, metrics = algorithm.update(before, data, jax.random.fold_in(key, count))
        names[:] = sorted(metrics)  # learned while tracing
        return (
            jax.tree.leaves(state),
            _ravel(algorithm.policy(state)),
            jnp.stack([value, *(metrics[name] for name in names)]),
        )

    return Program(jax.jit(step, donate_argnums=0), names)


class CompiledUpdate:
    """An algorithm's update, jitted, with the state that it changes.

    The state is kept as a plain list of arrays, which JAX takes and gives back (donated) without walking
    through modules at every step. The policy's tensors come back as one fresh array, of which NumPy views act
    while the next update already runs; value and metrics as another, read only when logged. Noise comes from JAX's
    `rbg` generator, which costs less than the default inside a compiled program. The key is an argument, so that one
    compiled program serves every seed: update number n draws from `fold_in(key(seed), n)`, and no generator state is
    carried.
    """

    def __init__(self, algorithm: Algorithm, state: State, seed: int):
        self._leaves, self._structure = jax.tree.flatten(state)
        self._key = jax.random.key(seed, impl="rbg")
        self._program = compiled(algorithm, self._structure)
        self._layout = {name: tensor.shape for name, tensor in algorithm.policy(state).items()}
        self._policy = algorithm.policy
        self._vector: jax.Array | None = None
        self._vector_before: jax.Array | None = None
        self._metrics: jax.Array | None = None
        self._restored: Metrics = {}

    @property
    def state(self) -> State:
        """All that learns, as the algorithm knows it."""
        return jax.tree.unflatten(self._structure, self._leaves)

    def dispatch(self, data: Any, count: int) -> None:
        """Start update number `count` as soon as the one before is done, and return at once.

        `data` is read until then: it must not change before the next update has been dispatched and
        `tensors_before` has returned.
        """
        self._vector_before = self._vector
        self._leaves, self._vector, self._metrics = self._program.step(
            self._leaves, data, self._key, np.uint32(count)
        )

    def restore(self, state: State, metrics: Metrics) -> None:
        """As if the last update had given this."""
        self._leaves = jax.tree.leaves(state)
        self._vector, self._metrics, self._restored = _ravel(self._policy(state)), None, metrics

    def tensors_before(self) -> Tensors | None:
        """Wait for the update before the last and view its policy, if there was one."""
        return None if self._vector_before is None else self._view(self._vector_before)

    def tensors(self) -> Tensors | None:
        """Wait for the last update and view its policy, if there was one."""
        return None if self._vector is None else self._view(self._vector)

    def _view(self, vector: jax.Array) -> Tensors:
        flat = np.asarray(vector)
        tensors, start = {}, 0
        for name, shape in self._layout.items():
            size = math.prod(shape)
            tensors[name] = flat[start : start + size].reshape(shape)
            start += size
        return tensors

    def metrics(self) -> Metrics:
        """The metrics of the last update and its mean value under "value", if there was one."""
        if self._metrics is None:
            return self._restored
        return dict(zip([VALUE, *self._program.names], np.asarray(self._metrics).tolist()))


def _ravel(tensors: dict[str, jax.Array]) -> jax.Array:
    return jnp.concatenate([tensor.ravel() for tensor in tensors.values()])
