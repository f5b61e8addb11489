"""What a person sees while training: a live line on a terminal, plain lines in a pipe."""

import contextlib
import sys
from typing import Self

from geoact.config import RunConfig
from geoact.training.session import Callback, Row


class Progress:
    """Shows each log point: return, evaluation, concentration, speed and time left."""

    def __init__(self, config: RunConfig):
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        self._config = config
        self._latest: Row = {}
        self._console = Console()
        self._live = self._console.is_terminal
        self._bar = Bar(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=None),
            TextColumn("{task.percentage:>3.0f}%"),
            TextColumn("{task.fields[facts]}"),
            TimeRemainingColumn(),
            console=self._console,
            disable=not self._live,
        )
        name = f"{config.algorithm} on {config.env}"
        self._task = self._bar.add_task(name, total=config.timesteps, facts="starting")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def wrap(self, callback: Callback | None) -> Callback:
        """A callback that shows the row and then asks the given one."""

        def show_and_ask(row: Row) -> bool | None:
            # A terminal that is gone, a pipe that nobody reads: training goes on.
            with contextlib.suppress(OSError):
                self.show(row)
            return None if callback is None else callback(row)

        return show_and_ask

    def show(self, row: Row) -> None:
        self._latest |= row
        facts = self._facts()
        self._bar.update(self._task, completed=row["step"], facts=facts)
        if not self._live and ("eval/return_mean" in row or "charts/episodic_return" in row):
            share = 100 * row["step"] / self._config.timesteps
            sys.stdout.write(f"{int(row['step']):>9,} ({share:3.0f}%)  {facts}{self._left(row)}\n")
            sys.stdout.flush()

    def _facts(self) -> str:
        shown = (
            ("charts/episodic_return", "return {:,.0f}"),
            ("eval/return_mean", "evaluation {:,.0f}"),
            ("policy/kappa", "kappa {:.2f}"),
            ("policy/scale", "scale {:.2f}"),
            ("losses/alpha", "alpha {:.3g}"),
            ("charts/SPS", "{:,.0f} steps/s"),
        )
        return "  ".join(form.format(self._latest[name]) for name, form in shown if name in self._latest)

    def _left(self, row: Row) -> str:
        seconds = (self._config.timesteps - row["step"]) * row["time/elapsed"] / max(row["step"], 1)
        return f"  {seconds / 60:.1f} min left" if seconds >= 60 else f"  {max(seconds, 0):.0f} s left"
