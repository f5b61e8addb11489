"""What GAC, SAC and TD3 share: the critics, the temporal-difference target, their step and the slow target copy.

    y = reward + gamma * (1 - terminated) * (aggregate of the target critics' values (s', a') + bonus(s'))
    critic loss = sum over the critics of mean (Q - y)^2, or of the cross-entropy to a histogram of y (HL-Gauss)
    target <- target + tau * (critic - target)

Termination ends the sum, truncation does not. With n_step > 1 `reward` is a discounted sum, s' the observation after n
steps, and `terminated` has the discount of the steps between in it (transitions.py).
"""

import functools
import math
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import Array

from geoact.config import Aggregate, CriticConfig, OffPolicyConfig
from geoact.networks import MLP
from geoact.transitions import columns


class Batch(NamedTuple):
    """A batch of transitions, over one step or several."""

    obs: Array  # [batch, obs_dim]
    action: Array  # [batch, action_dim]
    reward: Array  # [batch], summed over the steps
    terminated: Array  # [batch], 1.0 where the episode ended for good (see transitions.py for several steps)
    next_obs: Array  # [batch, obs_dim], after the steps


def split_rows(rows: Array, obs_dim: int, action_dim: int) -> Batch:
    """The columns of replay's packed rows (see transitions.py).  # [batch, columns]"""
    parts = {name: rows[..., where] for name, where in columns(obs_dim, action_dim).items()}
    return Batch(**parts)


@dataclass(frozen=True)
class Histogram:
    """A value as a distribution over equal bins of [-support, support], learned by cross-entropy (HL-Gauss).

    The target is a Gaussian around y, three quarters of a bin wide, cut to the support: bin i has the probability
    `Phi((e_(i+1) - y) / sigma) - Phi((e_i - y) / sigma)`, normalised; the value is the mean over bins.
    """

    bins: int
    support: float

    @property
    def width(self) -> float:
        return 2.0 * self.support / self.bins

    def mean(self, logits: Array) -> Array:
        """# [batch, bins] -> [batch]"""
        centers = -self.support + self.width * (jnp.arange(self.bins, dtype=logits.dtype) + 0.5)
        return jax.nn.softmax(logits) @ centers

    def project(self, y: Array) -> Array:
        """# [batch] -> [batch, bins]"""
        edges = -self.support + self.width * jnp.arange(self.bins + 1, dtype=y.dtype)
        y = jnp.clip(y, -self.support, self.support)
        scale = math.sqrt(2.0) * 0.75 * self.width
        cdf = jax.scipy.special.erf((edges[None, :] - y[:, None]) / scale)  # [batch, bins + 1]
        return jnp.maximum(cdf[:, 1:] - cdf[:, :-1], 0.0) / (cdf[:, -1:] - cdf[:, :1])


class Critics(eqx.Module):
    """Independent action-value networks; each gives a number, or the logits of a histogram of it."""

    members: tuple[MLP, ...]
    histogram: Histogram | None = eqx.field(static=True)

    def __init__(self, key: Array, obs_dim: int, action_dim: int, config: CriticConfig):
        self.histogram = Histogram(config.bins, config.support) if config.loss == "hl-gauss" else None
        outputs = 1 if self.histogram is None else self.histogram.bins
        sizes = (obs_dim + action_dim, *config.hidden_sizes, outputs)
        self.members = tuple(
            MLP(k, sizes, config.layer_norm, config.dropout) for k in jax.random.split(key, config.count)
        )

    def outputs(self, obs: Array, action: Array, key: Array | None = None) -> tuple[Array, ...]:
        """What every network gives; with a key, under dropout.  # count x [batch, 1 or bins]"""
        keys = (None,) * len(self.members) if key is None else jax.random.split(key, len(self.members))
        return tuple(member(obs, action, key=k) for member, k in zip(self.members, keys))

    def value(self, output: Array) -> Array:
        """The value that a network's output stands for.  # [batch, 1 or bins] -> [batch]"""
        return output[..., 0] if self.histogram is None else self.histogram.mean(output)

    def __call__(self, obs: Array, action: Array, key: Array | None = None) -> tuple[Array, ...]:
        """Every critic's values.  # [batch, ...] x 2 -> count x [batch]"""
        return tuple(self.value(output) for output in self.outputs(obs, action, key))


def aggregate(values: tuple[Array, ...], how: Aggregate) -> Array:
    """One value out of the critics' values.  # count x [batch] -> [batch]"""
    if how == "one":
        return values[0]
    if how == "mean":
        return sum(values[1:], values[0]) / len(values)
    return functools.reduce(jnp.minimum, values)


def target_value(critics: Critics, obs: Array, action: Array, config: CriticConfig, key: Array) -> Array:
    """The critics' values combined for the target, perhaps those of a random few.  # [batch]"""
    subset_key, dropout_key = jax.random.split(key)
    values = critics(obs, action, dropout_key if config.dropout else None)
    if config.target_subset is not None and config.target_subset < config.count:
        chosen = jax.random.permutation(subset_key, config.count)[: config.target_subset]
        stacked = jnp.stack(values)[chosen]
        values = tuple(stacked[i] for i in range(config.target_subset))
    return aggregate(values, config.target_value)


def actor_value(critics: Critics, obs: Array, action: Array, config: CriticConfig) -> Array:
    """The value that the policy maximises.  # [batch]"""
    if config.actor_value == "one":
        return critics.value(critics.members[0](obs, action))
    return aggregate(critics(obs, action), config.actor_value)


def td_target(batch: Batch, next_value: Array, gamma: float) -> Array:
    """Rewards plus the discounted value of the next state, unless the episode ended for good.  # [batch]"""
    return batch.reward + gamma * (1.0 - batch.terminated) * next_value


def critic_loss(
    critics: Critics, batch: Batch, target: Array, key: Array | None = None
) -> tuple[Array, tuple[Array, ...]]:
    """Sum of the mean losses, and every critic's mean value."""
    outputs = critics.outputs(batch.obs, batch.action, key)
    values = tuple(critics.value(output) for output in outputs)
    if critics.histogram is None:
        first, *others = (jnp.mean((value - target) ** 2) for value in values)
    else:
        wanted = critics.histogram.project(target)
        first, *others = (
            -jnp.mean(jnp.sum(wanted * jax.nn.log_softmax(output), axis=-1)) for output in outputs
        )
    return sum(others, first), tuple(jnp.mean(value) for value in values)


class CriticStep(NamedTuple):
    """The critics after one gradient step."""

    critics: Critics
    optimizer: optax.OptState
    value: Array
    """Mean over batch and critics."""
    metrics: dict[str, Array]


def critic_step(
    critics: Critics,
    optimizer_state: optax.OptState,
    optimizer: optax.GradientTransformation,
    batch: Batch,
    target: Array,
    key: Array | None = None,
) -> CriticStep:
    """One gradient step towards the target; dropout needs a key."""
    (loss, values), gradient = eqx.filter_value_and_grad(critic_loss, has_aux=True)(
        critics, batch, target, key
    )
    critics, optimizer_state = descend(critics, gradient, optimizer_state, optimizer)
    value = sum(values[1:], values[0]) / len(values)
    metrics = {"losses/qf_loss": loss, "losses/qf_values": value}
    metrics |= {f"losses/qf{i}_values": v for i, v in enumerate(values, 1)}
    return CriticStep(critics, optimizer_state, value, metrics)


def td_step(
    critics: Critics,
    target: Critics,
    optimizer_state: optax.OptState,
    optimizer: optax.GradientTransformation,
    batch: Batch,
    next_action: Array,
    penalty: Array | float,
    config: OffPolicyConfig,
    key: Array,
) -> CriticStep:
    """One gradient step towards `y`, for an action at the next state and what is taken off its value there."""
    subset_key, dropout_key = jax.random.split(jax.random.fold_in(key, 1))
    next_value = target_value(target, batch.next_obs, next_action, config.critic, subset_key)
    y = td_target(batch, next_value - penalty, config.gamma)
    return critic_step(critics, optimizer_state, optimizer, batch, y, dropout_key)


def critic_optimizer(config: OffPolicyConfig) -> optax.GradientTransformation:
    """Adam, with decoupled weight decay where it is asked for."""
    rate = _learning_rate(config, config.critic_lr, config.critic_lr_halving)
    if config.weight_decay:
        return optax.adamw(rate, weight_decay=config.weight_decay)
    return optax.adam(rate)


def actor_optimizer(config: OffPolicyConfig) -> optax.GradientTransformation:
    """Adam, for a policy that learns at every `policy_delay`-th update of the critics."""
    return optax.adam(_learning_rate(config, config.actor_lr, config.actor_lr_halving, config.policy_delay))


def steps_made(optimizer_state: optax.OptState) -> Array:
    """How many steps an optimiser of these has made."""
    return optax.tree_utils.tree_get(optimizer_state, "ScaleByAdamState").count


def _learning_rate(
    config: OffPolicyConfig, first: float, halving: int | None, every: int = 1
) -> float | optax.Schedule:
    """The rate, or what it falls to after a number of steps that are made at every `every`-th update."""

    def halved(steps: Any) -> Any:
        return first if halving is None else first / (1.0 + steps * (every / halving))

    def cooled(steps: Any) -> Any:
        assert config.planned_updates is not None
        left = 1.0 - steps * (every / config.planned_updates)
        return halved(steps) * jnp.clip(left / config.cool_down, 0.0, 1.0)

    if config.cool_down:
        return cooled
    return first if halving is None else halved


def descend(
    parameters: Any, gradient: Any, optimizer_state: optax.OptState, optimizer: optax.GradientTransformation
) -> tuple[Any, optax.OptState]:
    """Apply one optimiser step."""
    with jax.numpy_dtype_promotion("standard"):  # Optax mixes its integer step count with floats
        updates, optimizer_state = optimizer.update(gradient, optimizer_state, parameters)
    return optax.apply_updates(parameters, updates), optimizer_state


Network = TypeVar("Network")


def polyak(target: Network, online: Network, tau: float) -> Network:
    """Move the target a share tau towards the network that learns."""
    return jax.tree.map(lambda slow, fast: slow + tau * (fast - slow), target, online)
