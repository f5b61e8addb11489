"""What a run keeps in its directory: a truthful status and its policies, while it trains and however it ends.

completed            finished, with its last policy and checkpoint
asked to stop        stopped, saved at the step it was at
an error             failed with the reason, saved if the state is still sane
killed               what the newest checkpoint has; `resume` goes on from there
"""

import contextlib

from geoact.errors import InputError, TrainingFailed
from geoact.storage import checkpoints
from geoact.storage.recorder import Recorder
from geoact.storage.runs import Run, RunState, because
from geoact.training.checkpointing import Checkpointing
from geoact.training.learner import Core
from geoact.training.progress import Row
from geoact.training.tally import Tally


class Keeper:
    """Keeps a run's status and policies."""

    def __init__(self, run: Run | None, core: Core, tally: Tally, checkpointing: Checkpointing | None):
        """Without a run and its checkpoints nothing is written, and a policy that is broken is refused all the same."""
        self._run, self._core, self._tally, self._checkpointing = run, core, tally, checkpointing
        self._policy_at: int | None = None
        """Transitions behind the policy that was last written."""

    def status(self, state: RunState, reason: str | None = None) -> None:
        """Say how the run is."""
        if self._run is not None:
            core = self._core
            self._run.set_status(state, core.timesteps, core.config.timesteps, reason, self._tally.not_exact)

    def policy(self, evaluation: Row, best: bool = False) -> None:
        """Write the policy as it is now, with what is known about it, and where it is the best also as that."""
        if self._run is not None:
            self._run.save_policy(self._core.policy_with(evaluation), best)
            self._policy_at = self._core.timesteps

    def save(self, recorder: Recorder | None) -> None:
        """The last policy and a checkpoint: what an end leaves behind, whichever it is."""
        self._core.catch_up()
        self._core.require_sane()
        if self._policy_at != self._core.timesteps:
            self.policy({})
        if self._checkpointing is not None:
            self._checkpointing.write(recorder)

    def end(self, complete: bool) -> None:
        """The run is saved and ends without an error, completed or asked to stop."""
        self.status("finished" if complete else "stopped")
        if complete and self._run is not None and not self._core.config.keep_checkpoints:
            checkpoints.delete(self._run.path)

    def end_by_error(self, error: BaseException, recorder: Recorder | None) -> None:
        """Save what is sane and say what happened; the disk may be full, then files stay as they were."""
        if not isinstance(error, OSError):
            self._save_after(error, recorder)
        with contextlib.suppress(OSError):
            if recorder is not None:
                recorder.close()
        with contextlib.suppress(OSError):
            interrupted = isinstance(error, KeyboardInterrupt)
            reason = None if interrupted else str(error) or type(error).__name__
            self.status("stopped" if interrupted else "failed", reason)
        run, checkpointing = self._run, self._checkpointing
        if (
            isinstance(error, OSError)
            and error.errno is not None
            and run is not None
            and checkpointing is not None
        ):
            raise TrainingFailed(
                f"cannot write to {error.filename or run.path}: {because(error)}; of the checkpoints "
                f"{checkpointing.intact()}: put it right, then geoact resume {run.path}"
            ) from None

    def _save_after(self, error: BaseException, recorder: Recorder | None) -> None:
        tally, before = self._tally, self._tally.not_exact
        if tally.stepping:  # its noise is drawn and perhaps its update, nothing else
            tally.not_exact = before or f"the run was ended in the middle of a step by {type(error).__name__}"
        tally.stepping = False
        try:
            self.save(recorder)
        except (TrainingFailed, OSError, InputError):
            tally.not_exact = before
