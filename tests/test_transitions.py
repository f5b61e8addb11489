"""The layout of a packed row, and what `terminated` means over several steps."""

import numpy as np
import pytest

from geoact.transitions import columns, row_width


@pytest.mark.parametrize(("obs_dim", "action_dim"), [(1, 1), (3, 2), (348, 17)])
def test_every_column_belongs_to_one_part(obs_dim: int, action_dim: int):
    owner = np.zeros(row_width(obs_dim, action_dim), int)
    sizes = {}
    for name, where in columns(obs_dim, action_dim).items():
        owner[where] += 1
        sizes[name] = owner[where].size
    assert (owner == 1).all()
    assert sizes == {"obs": obs_dim, "action": action_dim, "reward": 1, "terminated": 1, "next_obs": obs_dim}
    assert row_width(obs_dim, action_dim) == 2 * obs_dim + action_dim + 2


def test_the_order_is_that_of_the_files():
    """Replay on disk is rows as they are: another order could not read them."""
    found = columns(3, 2)
    assert list(found) == ["obs", "action", "reward", "terminated", "next_obs"]
    assert (found["obs"], found["action"], found["reward"]) == (slice(0, 3), slice(3, 5), 5)
    assert (found["terminated"], found["next_obs"]) == (6, slice(7, 10))
