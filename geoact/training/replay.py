"""A preallocated ring of transitions, each a packed row (transitions.py)."""

import numpy as np

from geoact.errors import FileFormatError, InputError
from geoact.transitions import columns, row_width


def available_memory() -> int:
    """Bytes that can be had without swapping (Linux); a large number where that is not told."""
    try:
        with open("/proc/meminfo") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 1 << 62


class Replay:
    """The last `capacity` transitions, sampled with replacement.

    By age: with u uniform in [0, 1), the share `u^recency` of what is here is younger than the one that is drawn. With
    1 all are equally likely; with 2 half of a batch comes from the newest quarter, and nothing is forgotten.
    """

    def __init__(
        self,
        capacity: int,
        obs_dim: int,
        action_dim: int,
        memory: int | None = None,
        recency: float = 1.0,
    ):
        width = row_width(obs_dim, action_dim)
        need, have = capacity * width * 4, memory if memory is not None else available_memory()
        if need > have:
            raise InputError(
                f"a replay buffer of {capacity:,} transitions needs {need / 1e9:.1f} GB, and {have / 1e9:.1f} GB "
                f"of memory is free: use --buffer-size {int(capacity * have / need * 0.8):,} or less"
            )
        self.rows = np.empty((capacity, width), np.float32)  # pages are taken as they are filled
        self.columns = columns(obs_dim, action_dim)
        self.recency = recency
        self.added = 0
        """Transitions ever added; the next one goes to row `added % capacity`."""

    @property
    def capacity(self) -> int:
        return len(self.rows)

    def __len__(self) -> int:
        return min(self.added, self.capacity)

    def add(
        self,
        obs: np.ndarray,
        action: np.ndarray,
        reward: np.ndarray,
        terminated: np.ndarray,
        next_obs: np.ndarray,
    ) -> None:
        """Add one transition per row of the arguments.  # [n, ...], n <= capacity"""
        count, start = len(obs), self.added % self.capacity
        where = slice(start, start + count)
        if start + count > self.capacity:
            where = np.arange(start, start + count) % self.capacity
        given = {
            "obs": obs,
            "action": action,
            "reward": reward,
            "terminated": terminated,
            "next_obs": next_obs,
        }
        for name, part in given.items():
            self.rows[where, self.columns[name]] = part
        self.added += count

    @property
    def oldest(self) -> int:
        """The number of the oldest transition still here, counted over the whole run."""
        return self.added - len(self)

    def numbered(self, first: int, stop: int) -> np.ndarray:
        """A copy of the transitions number `first` to `stop - 1` of the whole run."""
        assert self.oldest <= first <= stop <= self.added
        return self.rows[np.arange(first, stop) % self.capacity]

    def put(self, first: int, rows: np.ndarray) -> None:
        """Put back the transitions from number `first` on; those that are too old are left out."""
        if rows.shape[1:] != self.rows.shape[1:]:
            raise FileFormatError(
                f"replay rows of {rows.shape[1]} columns do not fit this environment, expected {self.rows.shape[1]}"
            )
        start = max(first, self.oldest)
        self.rows[np.arange(start, first + len(rows)) % self.capacity] = rows[start - first :]

    def sample(self, rng: np.random.Generator, out: np.ndarray) -> np.ndarray:
        """Fill `out` [updates, batch, columns] with rows drawn by their age, and return it."""
        count = out.shape[0] * out.shape[1]
        if self.recency == 1.0:
            indices = rng.integers(0, len(self), count)
        else:
            age = (len(self) * rng.random(count) ** self.recency).astype(np.int64)
            indices = (self.added - 1 - age) % self.capacity
        np.take(self.rows, indices, axis=0, out=out.reshape(-1, out.shape[-1]), mode="clip")
        return out
