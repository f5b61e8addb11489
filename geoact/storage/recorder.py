"""What a run records while it trains: metrics.jsonl, TensorBoard and, where asked, Weights & Biases.

metrics.jsonl is the record; a row that cannot be written ends the run. The other two are views of it: where one of
them cannot be written (a full disk), it ends and the run goes on.

Weights & Biases is set up by its own environment variables: WANDB_MODE=offline keeps everything in the run's folder
(`wandb sync` uploads it later), WANDB_PROJECT names another project than geoact.
"""

import contextlib
import json
import os
from typing import Any

from geoact.errors import InputError
from geoact.storage import files
from geoact.storage.events import EventFile
from geoact.storage.runs import Run


def require_wandb() -> Any:
    """The module of the extra, or an error before anything is started."""
    try:
        import wandb  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise InputError("--wandb needs an extra: pip install 'geoact[wandb]'") from None
    return wandb


class Recorder:
    """Writes a run's metrics."""

    def __init__(self, run: Run, first_step: int = 0):
        """`first_step`: later steps that TensorBoard may have seen before an interruption do not count."""
        self._wandb: Any = None
        config = run.config()
        if config.wandb:
            # One id per run directory: a run that is continued goes on in the same record.
            self._wandb = require_wandb().init(
                project=os.environ.get("WANDB_PROJECT", "geoact"),
                name=run.path.name,
                id=run.path.name,
                resume="allow",
                dir=str(run.path),
                config=config.to_json(),
            )
        # Unbuffered: nothing is left to be written when the file is closed, or forgotten, on a full disk.
        self._file = open(run.path / "metrics.jsonl", "ab", buffering=0)  # noqa: SIM115 (closed in close)
        self._board: EventFile | None = None
        with contextlib.suppress(OSError):
            self._board = EventFile(run.path, first_step)

    def write(self, row: dict[str, float]) -> None:
        """Append one row; it must have a `step`."""
        files.append(self._file, json.dumps(row, allow_nan=False).encode() + b"\n")
        step, values = int(row["step"]), {name: value for name, value in row.items() if "/" in name}
        if self._board is not None:
            try:
                self._board.write(step, values)
            except OSError:
                self._close_board()
        if self._wandb is not None:
            self._wandb.log(values, step=step)

    def sync(self) -> int:
        """Put the rows onto the disk; the bytes there are now."""
        os.fsync(self._file.fileno())
        return self._file.tell()

    def close(self) -> None:
        """Close everything; the error of a disk that refuses the rows comes last."""
        self._close_board()
        if self._wandb is not None:
            self._wandb.finish()
        try:
            self.sync()
        finally:
            self._file.close()

    def _close_board(self) -> None:
        board, self._board = self._board, None
        if board is not None:
            with contextlib.suppress(OSError):
                board.close()
