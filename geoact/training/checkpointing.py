"""A run's checkpoints: when one is due, what is in it, and going back to the newest that is whole."""

import contextlib
import sys
import time
from collections.abc import Callable
from pathlib import Path

from geoact.errors import FileFormatError, InputError
from geoact.storage import checkpoints
from geoact.storage.checkpoints import Checkpointer, Loaded, Snapshot
from geoact.storage.recorder import Recorder
from geoact.storage.runs import because
from geoact.training.learner import Learner
from geoact.training.tally import Tally

FIRST_CHECKPOINT = 45.0
"""Seconds until the first checkpoint, at the latest: a run that has just begun is not lost either."""


class Checkpointing:
    """Saves a run in its directory, between two vector steps."""

    def __init__(self, run: Path, learner: Learner, tally: Tally):
        self._run, self._learner, self._tally = run, learner, tally
        self._files = Checkpointer(run)
        self._last = (time.monotonic(), 0)
        """Time and transitions of the last checkpoint, or of the last attempt at one."""

    @property
    def newest(self) -> int | None:
        """Transitions that the newest checkpoint has."""
        return self._files.newest

    @property
    def folder(self) -> Path:
        """Where the checkpoint of this very step is, or would be."""
        return self._files.folder(self._learner.core.timesteps)

    def intact(self) -> str:
        """What there is to go back to, in words."""
        newest = self.newest
        return "there is none before it" if newest is None else f"the one at {newest:,} is intact"

    def due(self) -> bool:
        """Whether the time has come."""
        core, (then, before) = self._learner.core, self._last
        config = core.config
        if core.timesteps == before:
            return False
        if config.checkpoint_steps is not None:
            return core.timesteps - before >= config.checkpoint_steps
        wait = 60.0 * config.checkpoint_minutes
        if self.newest is None:
            wait = min(wait, FIRST_CHECKPOINT)
        return 0.0 < wait <= time.monotonic() - then

    def write_if_due(self, recorder: Recorder | None) -> bool:
        """Save when the time has come, and say so; a full disk costs this checkpoint, not the run."""
        if not self.due():
            return False
        try:
            self.write(recorder)
            return True
        except OSError as error:
            timesteps = self._learner.core.timesteps
            self._last = (time.monotonic(), timesteps)
            with contextlib.suppress(OSError):  # nobody may be there to read it
                print(
                    f"geoact: no checkpoint at {timesteps:,}: {because(error)}; training goes on and tries "
                    f"again later, {self.intact()}",
                    file=sys.stderr,
                    flush=True,
                )
            return False

    def write(self, recorder: Recorder | None) -> None:
        """Save now. Refuses a state that is not finite."""
        core, started = self._learner.core, time.perf_counter()
        core.require_sane()
        snapshot = self.capture()
        snapshot.facts["metrics_size"] = recorder.sync() if recorder is not None else 0
        self._files.write(core.timesteps, snapshot, self._learner.replay)
        self._last = (time.monotonic(), core.timesteps)
        self._tally.checkpoint_seconds += time.perf_counter() - started

    def capture(self) -> Snapshot:
        """Everything that changes while the run trains; the replay is apart."""
        arrays, facts = self._learner.state()
        return Snapshot(arrays, facts | self._tally.facts())

    def restore(self, say: Callable[[str], None], accept_loss: bool) -> Loaded | None:
        """Back to the newest checkpoint that is whole, if there is any (see `checkpoints.load_newest`)."""
        checkpoints.sweep(self._run)
        loaded = checkpoints.load_newest(self._run, self._learner.replay, say, accept_loss)
        if loaded is not None:
            self._take_over(loaded.snapshot)
            self._files = Checkpointer(self._run, loaded.kept, loaded.damaged)
            self._last = (time.monotonic(), self._learner.core.timesteps)
        self._files.prune()
        return loaded

    def _take_over(self, snapshot: Snapshot) -> None:
        """What was captured (the replay is already there)."""
        try:
            lost = self._learner.restore(snapshot.arrays, snapshot.facts)
            self._tally.restore(snapshot.facts)
        except InputError:
            raise
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise FileFormatError(
                f"the checkpoint does not fit this run: {type(error).__name__} {error}"
            ) from None
        self._tally.note_lost(lost, self._learner.core.envs.count)
