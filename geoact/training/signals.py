"""Asking a run to stop: Ctrl-C, SIGTERM and a closed terminal become a question that the loop asks between steps."""

import signal
import threading
from types import FrameType
from typing import Any

ASKING = ("SIGINT", "SIGTERM", "SIGHUP")
"""Where the platform has them."""


class StopSignal:
    """True once somebody has asked; a second Ctrl-C interrupts at once."""

    def __init__(self) -> None:
        self.number: int | None = None
        """The signal that asked."""
        self._previous: dict[int, Any] = {}

    def __call__(self) -> bool:
        return self.number is not None

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.number is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.number = number

    def __enter__(self) -> "StopSignal":
        if threading.current_thread() is threading.main_thread():
            for name in ASKING:
                number = getattr(signal, name, None)
                # A signal that is ignored (nohup) stays ignored.
                if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
                    self._previous[number] = signal.signal(number, self._ask)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
