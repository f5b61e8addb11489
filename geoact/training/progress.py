"""What a person sees while training: a live line on a terminal, a bar in a notebook, plain lines in a pipe."""

import contextlib
import html
import sys
from typing import TYPE_CHECKING, Any

from geoact.config import RunConfig

if TYPE_CHECKING:
    from rich.console import Console

Row = dict[str, float]


class Display:
    """Shows each log point: return, evaluation, concentration, speed and time left."""

    def __init__(self, config: RunConfig):
        from rich.console import Console

        self._config = config
        self._latest: Row = {}
        self._name = f"{config.algorithm} on {config.env}"
        console = Console()
        self._form: _Bar | _Notebook | None = None
        if console.is_jupyter:
            self._form = _Notebook(self._name)
        elif console.is_terminal:
            self._form = _Bar(console, self._name, config.timesteps)

    def close(self) -> None:
        """Leave the last state standing."""
        if self._form is not None:
            self._form.close()

    def show(self, row: Row) -> None:
        """One log point; a terminal that is gone or a pipe that nobody reads is no reason to stop."""
        self._latest |= row
        facts, share = self._facts(), min(1.0, row["step"] / self._config.timesteps)
        with contextlib.suppress(OSError):
            if self._form is not None:
                self._form.show(row["step"], share, facts + (self._left(row) if share < 1 else ""))
            elif "eval/return_mean" in row or "charts/episodic_return" in row:
                sys.stdout.write(f"{int(row['step']):>9,} ({share:4.0%})  {facts}{self._left(row)}\n")
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
