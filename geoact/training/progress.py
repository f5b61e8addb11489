"""What a person sees while training: a live line on a terminal, a bar in a notebook, plain lines in a pipe."""

import contextlib
import html
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from geoact.config import RunConfig

if TYPE_CHECKING:
    from rich.console import Console

Row = dict[str, float]
"""The metrics of a log point, by their names."""


class EvaluationLines:
    """A line now and then on how far an evaluation is: one that takes long must not look like one that hangs."""

    def __init__(self, episodes: int, say: Callable[[str], object], seconds: float = 10.0):
        """`seconds`: between two lines."""
        self._episodes, self._say, self._seconds = episodes, say, seconds
        self._said = time.monotonic()

    def __call__(self, episode: int, steps: int) -> None:
        if time.monotonic() - self._said >= self._seconds:
            with contextlib.suppress(OSError):
                self._say(evaluation_line(episode, self._episodes, steps))
            self._said = time.monotonic()


def evaluation_line(episode: int, episodes: int, steps: int) -> str:
    """How far an evaluation is, in words."""
    return f"evaluating: episode {episode + 1} of {episodes}, step {steps:,}"


class Display:
    """Shows each log point: return, evaluation, concentration, speed and time left."""

    def __init__(self, config: RunConfig):
        from rich.console import Console

        self._config = config
        self._latest: Row = {}
        self._step, self._share = 0.0, 0.0
        self._lines = EvaluationLines(
            config.eval_episodes, lambda line: print(line, flush=True), seconds=60.0
        )
        self._name = f"{config.algorithm} on {config.env}"
        console = Console()
        self._form: _Bar | _Notebook | None = None
        if console.is_jupyter:
            self._form = _Notebook(self._name)
        elif console.is_terminal:
            self._form = _Bar(console, self._name, config.timesteps)

    def close(self) -> None:
        """Leave the last state standing."""
        with contextlib.suppress(OSError):
            if self._form is not None:
                self._form.close()

    def evaluating(self, episode: int, steps: int) -> None:
        """Show how far an evaluation is."""
        if self._form is None:
            self._lines(episode, steps)
            return
        with contextlib.suppress(OSError):
            words = evaluation_line(episode, self._config.eval_episodes, steps)
            self._form.show(self._step, self._share, words)

    def show(self, row: Row) -> None:
        """One log point; a terminal that is gone or a pipe that nobody reads is no reason to stop."""
        if "eval/return_mean" in row:
            self._latest.pop("eval/cut", None)  # of the evaluation before
        self._latest |= row
        self._step, self._share = row["step"], min(1.0, row["step"] / self._config.timesteps)
        facts, share = self._facts(), self._share
        with contextlib.suppress(OSError):
            if self._form is not None:
                self._form.show(self._step, share, facts + (self._left(row) if share < 1 else ""))
            elif "eval/return_mean" in row or "charts/episodic_return" in row:
                sys.stdout.write(f"{int(row['step']):>9,} ({share:4.0%})  {facts}{self._left(row)}\n")
                sys.stdout.flush()

    def _facts(self) -> str:
        shown = (
            ("charts/episodic_return", "return {:,.0f}"),
            ("eval/return_mean", "evaluation {:,.0f}"),
            ("eval/cut", f"({{:.0f}} episodes cut off at {self._config.eval_steps:,} steps)"),
            ("policy/kappa", "kappa {:.2f}"),
            ("policy/scale", "scale {:.2f}"),
            ("losses/alpha", "alpha {:.3g}"),
            ("charts/SPS", "{:,.0f} steps/s"),
        )
        return "  ".join(form.format(self._latest[name]) for name, form in shown if name in self._latest)

    def _left(self, row: Row) -> str:
        seconds = (self._config.timesteps - row["step"]) * row["time/elapsed"] / max(row["step"], 1)
        return f"  {seconds / 60:.1f} min left" if seconds >= 60 else f"  {max(seconds, 0):.0f} s left"


class _Bar:
    """A live line on a terminal."""

    def __init__(self, console: "Console", name: str, total: int):
        from rich.progress import BarColumn, Progress, TextColumn

        self._bar = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=None),
            TextColumn("{task.percentage:>3.0f}%"),
            TextColumn("{task.fields[facts]}"),
            console=console,
        )
        self._task = self._bar.add_task(name, total=total, facts="starting")
        self._bar.start()

    def show(self, step: float, share: float, facts: str) -> None:
        self._bar.update(self._task, completed=step, facts=facts)

    def close(self) -> None:
        self._bar.stop()


class _Notebook:
    """A bar in the output of a notebook's cell, drawn again at each log point."""

    def __init__(self, name: str):
        from IPython.display import HTML, display

        self._html, self._name = HTML, name
        self._handle: Any = display(HTML(self._markup(0.0, "starting")), display_id=True)

    def show(self, step: float, share: float, facts: str) -> None:
        self._handle.update(self._html(self._markup(share, facts)))

    def _markup(self, share: float, facts: str) -> str:
        return (
            f"<div><b>{html.escape(self._name)}</b> <progress value='{share:.3f}' max='1'></progress> {share:.0%} "
            f"{html.escape(facts)}</div>"
        )

    def close(self) -> None:
        pass
