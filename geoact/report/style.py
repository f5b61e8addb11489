"""How every figure of the project looks, and how it is written: PNG and SVG, the same bytes on every rerun.

    with drawing():
        figure = new_figure(8, 3)
        axis = figure.subplots()
        ...
        paths = save_figure(figure, Path("results/analysis/entropy"))

Figures are made without pyplot, so nothing is shown, kept open or left behind in global state.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's colours, told apart by colour-blind readers too; each method keeps its own everywhere.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D31")
METHOD_COLORS = {
    "gac": COLORS[0],
    "gac-scale": COLORS[5],
    "gac-entropy": COLORS[2],
    "sac": COLORS[1],
    "td3": COLORS[3],
    "ppo": COLORS[4],
    "vmf": COLORS[7],
}

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
def drawing() -> Iterator[None]:
    """The project's style, for as long as the block lasts."""
    import matplotlib
    from cycler import cycler

    settings: dict[Any, Any] = {**_STYLE, "axes.prop_cycle": cycler(color=COLORS)}
    with matplotlib.rc_context(settings):
        yield


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
