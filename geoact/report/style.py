"""How every figure of the project looks, and how it is written: PNG and SVG, the same bytes on every rerun.

    with drawing():
        figure = new_figure(8, 3)
        axis = figure.subplots()
        ...
        paths = save_figure(figure, Path("results/analysis/entropy"))

Figures are made without pyplot, so nothing is shown, kept open or left behind in global state.
"""

import itertools
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from geoact.config import REGISTRY

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which colour-blind readers tell apart too.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D31")
METHOD_COLORS = {name: entry.color for name, entry in REGISTRY.items()} | {
    "gac-entropy": "#7B3294",
    "gac-scale-entropy": "#7B3294",
    "vmf": COLORS[7],
}
"""Each method has one colour in all figures: the algorithms' own, and those of labels that are no algorithm."""

_STYLE: dict[str, Any] = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.labelsize": 9,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "lines.linewidth": 1.6,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    # names inside an SVG are hashes: with the salt fixed they do not change from run to run
    "svg.hashsalt": "geoact",
}


@contextmanager
def drawing() -> Generator[None]:
    """The project's style, for as long as the block lasts."""
    import matplotlib
    from cycler import cycler

    settings: dict[Any, Any] = {**_STYLE, "axes.prop_cycle": cycler(color=COLORS)}
    with matplotlib.rc_context(settings):
        yield


def colors_of(labels: Iterable[str]) -> dict[str, str]:
    """A method's own colour where it has one, else one that no label here has."""
    labels = list(labels)
    own = {label: METHOD_COLORS[label] for label in labels if label in METHOD_COLORS}
    free = itertools.cycle([color for color in COLORS if color not in own.values()] or COLORS)
    return {label: own.get(label) or next(free) for label in labels}


def plain(text: str) -> str:
    """A label as it is: Matplotlib would read what stands between two dollar signs as mathematics."""
    return text.replace("$", r"\$")


def thousands(value: float, _: object = None) -> str:
    """An axis label for a number of steps: 40k, 1M."""
    return f"{value / 1e6:g}M" if abs(value) >= 1e6 else f"{value / 1e3:g}k"


def new_figure(width: float, height: float) -> "Figure":
    """An empty figure, in inches, whose labels are never cut off."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def save_figure(figure: "Figure", stem: Path) -> list[Path]:
    """Write `stem`.png and `stem`.svg: the files written. Call inside `drawing()`."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    png, svg = (stem.with_name(stem.name + suffix) for suffix in (".png", ".svg"))
    figure.savefig(png, dpi=150, metadata={"Software": None})
    figure.savefig(svg, metadata={"Date": None, "Creator": None})
    return [png, svg]
