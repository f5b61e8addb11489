"""Critics as a Python loop over networks, or as one batched computation: `python -m benchmarks.ensembles [CORES]`.

The gradient of the critics' loss at HalfCheetah's sizes, both forms in turns in one process; only the ratio is meant.
"""

import sys
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geoact.networks import MLP
from geoact.training import backend

BATCH, INPUTS, WIDTH = 256, 23, 256
Stacked = list[tuple[Array, Array]]


def loop_loss(critics: tuple[MLP, ...], x: Array) -> Array:
    """As geoact does it."""
    return jnp.sum(jnp.stack([jnp.mean(critic(x)[..., 0] ** 2) for critic in critics]))


def batched_loss(layers: Stacked, x: Array) -> Array:
    """All critics in one product per layer."""
    y = jnp.broadcast_to(x, (layers[0][0].shape[0], *x.shape))
    for i, (weight, bias) in enumerate(layers):
        y = jnp.einsum("nbi,noi->nbo", y, weight) + bias[:, None, :]
        y = jax.nn.relu(y) if i < len(layers) - 1 else y
    return jnp.sum(jnp.mean(y[..., 0] ** 2, axis=1))


def stack(critics: tuple[MLP, ...]) -> Stacked:
    def of(i: int) -> tuple[Array, Array]:
        layers = [critic.layers[i] for critic in critics]
        biases = [layer.bias for layer in layers if layer.bias is not None]
        return jnp.stack([layer.weight for layer in layers]), jnp.stack(biases)

    return [of(i) for i in range(len(critics[0].layers))]


def main(cores: int, rounds: int = 25, calls: int = 4) -> None:
    """Measure and print."""
    backend.set_threads(cores)
    x = jax.random.normal(jax.random.key(1), (BATCH, INPUTS))
    for count in (2, 5, 10):
        keys = jax.random.split(jax.random.key(0), count)
        critics = tuple(MLP(key, (INPUTS, WIDTH, WIDTH, 1)) for key in keys)
        stacked = stack(critics)
        loop = jax.jit(lambda c: eqx.filter_grad(loop_loss)(c, x))
        batched = jax.jit(lambda c: jax.grad(batched_loss)(c, x))
        times: dict[str, list[float]] = {"loop": [], "batched": []}
        for _ in range(rounds + 1):
            for name, call, argument in (("loop", loop, critics), ("batched", batched, stacked)):
                started = time.perf_counter()
                for _ in range(calls):
                    jax.block_until_ready(call(argument))
                times[name].append(1e3 * (time.perf_counter() - started) / calls)
        ratios = np.array(times["batched"][1:]) / np.array(times["loop"][1:])  # the first compiled
        print(
            f"{cores} core(s), {count} critics: loop {np.median(times['loop'][1:]):.2f} ms, "
            f"batched {np.median(times['batched'][1:]):.2f} ms, "
            f"batched / loop {np.median(ratios):.2f} ({ratios.min():.2f} to {ratios.max():.2f})"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
