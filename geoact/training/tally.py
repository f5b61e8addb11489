"""What a run counts besides what its learner holds: time, log points, the best evaluation, whether it is still exact.

Every checkpoint has these numbers, so that a run that is resumed goes on counting where it was.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from geoact.training.learner import Core
from geoact.training.progress import Row
from geoact.training.update import VALUE


@dataclass
class Tally:
    """The counts of one run."""

    best: float = -math.inf
    """The best mean return of an evaluation."""
    elapsed: float = 0.0
    """Seconds of training; evaluations do not count."""
    checkpoint_seconds: float = 0.0
    """Seconds that checkpoints took."""
    mark: tuple[float, int] = (0.0, 0)
    """Seconds and transitions at the last log point; one that was cut short is not yet made."""
    not_exact: str | None = None
    """Why this run is no longer what it would have been without an interruption."""
    stepping: bool = False
    """Whether a step is half made; not in checkpoints, which lie between two steps."""

    def row(self, core: Core, checkpoints: bool) -> Row:
        """A log point: metrics since the last one. `checkpoints`: whether the run writes any."""
        row: Row = {"step": core.timesteps, "updates": core.updates}
        if core.episodes:
            returns, lengths = zip(*core.episodes)
            row |= {"charts/episodic_return": float(np.mean(returns))}
            row |= {"charts/episodic_length": float(np.mean(lengths)), "charts/episodes": len(returns)}
        then, before = self.mark
        row["charts/SPS"] = (core.timesteps - before) / max(self.elapsed - then, 1e-9)
        row["time/elapsed"] = self.elapsed
        if checkpoints:
            row["time/checkpoints"] = self.checkpoint_seconds
        core.episodes, self.mark = [], (self.elapsed, core.timesteps)
        return row | {name: value for name, value in core.update.metrics().items() if name != VALUE}

    def note_lost(self, lost: list[int], count: int) -> None:
        """Write down that some of `count` environments could not go on with their episode."""
        if lost:
            self.not_exact = (
                f"{len(lost)} of {count} environments did not reproduce their episode and began a new one"
            )

    def facts(self) -> dict[str, Any]:
        """The plain data of a checkpoint."""
        return {
            "best": self.best if math.isfinite(self.best) else None,
            "elapsed": self.elapsed,
            "checkpoint_seconds": self.checkpoint_seconds,
            "mark": self.mark,
            "not_exact": self.not_exact,
        }

    def restore(self, facts: dict[str, Any]) -> None:
        """Back to a checkpoint."""
        self.best = -math.inf if facts["best"] is None else float(facts["best"])
        self.elapsed = float(facts["elapsed"])
        self.checkpoint_seconds = float(facts["checkpoint_seconds"])
        self.mark = float(facts["mark"][0]), int(facts["mark"][1])
        self.not_exact = facts["not_exact"]
