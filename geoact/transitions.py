"""A transition as one packed row of float32: the one place that knows the layout.

    obs | action | reward | terminated | next_obs

One gather then samples a batch, one transfer hands it to the update, and a stretch of replay is a matrix
that can be written to disk as it is.

A transition may span m steps (training/n_step.py): its reward is then their discounted sum, its next
observation the one after them, and `terminated` is `1 - gamma^(m-1) * (1 - terminated)`: the discount of
the steps between is a probability of having ended, so that one gamma and `1 - terminated` are always what
the next value counts for.
"""

from typing import Any


def columns(obs_dim: int, action_dim: int) -> dict[str, Any]:
    """Where each part of a row is: a slice, or the number of a single column."""
    end = obs_dim + action_dim
    return {
        "obs": slice(0, obs_dim),
        "action": slice(obs_dim, end),
        "reward": end,
        "terminated": end + 1,
        "next_obs": slice(end + 2, 2 * obs_dim + action_dim + 2),
    }


def row_width(obs_dim: int, action_dim: int) -> int:
    """Columns of a row."""
    return columns(obs_dim, action_dim)["next_obs"].stop
