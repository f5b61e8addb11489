"""What may be done while a run trains, as objects.

    agent.learn(240_000, callback=[StopAtReturn(5_000), SaveBest("best"), Progress()])

A callback is a subclass of `Callback` with the methods that it needs; each is told of the session, which has
`timesteps`, `updates`, `policy`, `config` and `run`. Returning False from `on_log`, `on_evaluation` or `on_checkpoint`
stops the run, with everything saved. A plain function of a log point's metrics is understood as an `on_log`.
"""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from geoact.errors import InputError
from geoact.training.progress import Display, Row

if TYPE_CHECKING:
    from geoact.training.session import Session


class Callback:
    """Nothing at every occasion; a subclass does something at some of them."""

    def on_start(self, session: "Session") -> None:
        """Training begins, or goes on."""

    def on_log(self, session: "Session", row: Row) -> bool | None:
        """A log point was made: its metrics, with those of an evaluation if one was played. False stops the run."""

    def on_evaluation(self, session: "Session", row: Row) -> bool | None:
        """An evaluation was played: the metrics of its log point. False stops the run."""

    def on_checkpoint(self, session: "Session", path: Path) -> bool | None:
        """A checkpoint was written into this folder. False stops the run."""

    def on_end(self, session: "Session", complete: bool) -> None:
        """Training has ended, completely or not; also after an error."""


RowFunction = Callable[[Row], bool | None]
"""Sees each log point; returning False stops the training."""
CallbackLike = Callback | RowFunction | Sequence[Callback | RowFunction]
"""What `learn` and `Session.train` take."""


class _Function(Callback):
    """A plain function, asked at each log point."""

    def __init__(self, function: RowFunction):
        self._function = function

    def on_log(self, session: "Session", row: Row) -> bool | None:
        return self._function(row)


class Callbacks(Callback):
    """Several callbacks as one: all are told, in their order, and one is enough to stop the run."""

    def __init__(self, callback: CallbackLike | None = None):
        given = callback if isinstance(callback, Sequence) else () if callback is None else (callback,)
        for item in given:
            if not isinstance(item, Callback) and not callable(item):
                raise InputError(
                    f"a callback is a geoact.Callback or a function of a log point's metrics, got {item!r}"
                )
            if isinstance(item, type):
                raise InputError(f"{item.__name__} is a class of callbacks: make one, {item.__name__}(...)")
        self.all = [item if isinstance(item, Callback) else _Function(item) for item in given]

    def on_start(self, session: "Session") -> None:
        for callback in self.all:
            callback.on_start(session)

    def on_log(self, session: "Session", row: Row) -> bool:
        return False not in [callback.on_log(session, row) for callback in self.all]

    def on_evaluation(self, session: "Session", row: Row) -> bool:
        return False not in [callback.on_evaluation(session, row) for callback in self.all]

    def on_checkpoint(self, session: "Session", path: Path) -> bool:
        return False not in [callback.on_checkpoint(session, path) for callback in self.all]

    def on_end(self, session: "Session", complete: bool) -> None:
        for callback in self.all:
            callback.on_end(session, complete)


def _require_evaluations(callback: Callback, session: "Session") -> None:
    if not session.config.evaluations:
        raise InputError(
            f"{type(callback).__name__} looks at evaluations, and this run has none: set RunOptions(evaluations=...), "
            "and give eval_env= where the environment is an object"
        )


class StopAtReturn(Callback):
    """Stops when an evaluation's mean return reaches a value."""

    def __init__(self, value: float):
        """`value`: the mean return that is good enough."""
        self.value = value

    def on_start(self, session: "Session") -> None:
        _require_evaluations(self, session)

    def on_evaluation(self, session: "Session", row: Row) -> bool:
        return row["eval/return_mean"] < self.value


class StopWithoutImprovement(Callback):
    """Stops when so many evaluations in a row have not been better than the best before them."""

    def __init__(self, evaluations: int = 5, at_least: float = 0.0, after: int = 0):
        """`evaluations`: how many may pass; `at_least`: what counts as better; `after`: transitions before counting."""
        if evaluations < 1:
            raise InputError(f"evaluations must be greater than 0, got {evaluations}")
        self.evaluations, self.at_least, self.after = evaluations, at_least, after
        self.best = -math.inf
        """The best mean return so far."""
        self.waited = 0
        """Evaluations since then."""

    def on_start(self, session: "Session") -> None:
        _require_evaluations(self, session)

    def on_evaluation(self, session: "Session", row: Row) -> bool:
        if row["eval/return_mean"] > self.best + self.at_least:
            self.best, self.waited = row["eval/return_mean"], 0
        elif session.timesteps > self.after:
            self.waited += 1
        return self.waited < self.evaluations


class SaveBest(Callback):
    """Writes the policy into a folder whenever an evaluation is the best so far; `geoact.load` reads it.

    A run with a directory keeps its best policy there anyway.
    """

    def __init__(self, path: Path | str):
        """`path`: a folder that holds an older policy or nothing."""
        self.path = Path(path)
        self.best = -math.inf
        """The best mean return so far."""

    def on_start(self, session: "Session") -> None:
        _require_evaluations(self, session)

    def on_evaluation(self, session: "Session", row: Row) -> None:
        if row["eval/return_mean"] > self.best:
            self.best = row["eval/return_mean"]
            facts = {name: value for name, value in row.items() if name.startswith("eval/")}
            session.learner.core.policy_with(facts).save(self.path)


class Progress(Callback):
    """Shows each log point: return, evaluation, concentration, speed and time left.

    A live line on a terminal, a bar in a notebook, plain lines in a pipe.
    """

    def __init__(self) -> None:
        self._display: Display | None = None

    def on_start(self, session: "Session") -> None:
        self._display = Display(session.config)
        session.watch = self._display.evaluating

    def on_log(self, session: "Session", row: Row) -> None:
        assert self._display is not None
        self._display.show(row)

    def on_end(self, session: "Session", complete: bool) -> None:
        if self._display is not None:
            self._display.close()
