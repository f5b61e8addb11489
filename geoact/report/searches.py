"""What a hyperparameter search found (tune.json, see experiments/tuning.py), as figures and for the report page."""

import base64
import io
import itertools
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from geoact.errors import FileFormatError, InputError
from geoact.experiments.catalogue import task_name
from geoact.report import style
from geoact.report.tables import Table, Value
from geoact.storage import files

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = 5
"""Trials in the table."""


@dataclass(frozen=True)
class SearchData:
    """One search, read."""

    path: Path
    env: str
    algorithm: str
    timesteps: int
    trials: list[dict[str, Any]]
    importance: dict[str, float]
    confirmed: dict[str, dict[str, float]]

    @property
    def title(self) -> str:
        return f"{self.algorithm} on {task_name(self.env)}"

    @property
    def scored(self) -> list[dict[str, Any]]:
        """The trials that came to their end."""
        return [trial for trial in self.trials if trial["value"] is not None]


def find(folder: Path, depth: int = 2) -> list[SearchData]:
    """The searches in a folder and below; what cannot be read is left out."""
    patterns = ["/".join([*["*"] * level, "tune.json"]) for level in range(depth + 1)]
    found = []
    for path in sorted(itertools.chain.from_iterable(folder.glob(pattern) for pattern in patterns)):
        try:
            found.append(read(path.parent))
        except (InputError, OSError):
            continue
    return found


def read(folder: Path) -> SearchData:
    """The search in a folder."""
    path = folder / "tune.json"
    data = files.read_json(path)
    try:
        if data["format"] != "geoact-tune" or data["schema"] != 1:
            raise FileFormatError(f"{path} is not a search of this version")
        trials = [
            {
                "number": int(trial["number"]),
                "run": str(trial["run"]),
                "value": None if trial["value"] is None else _finite(trial["value"]),
                "state": str(trial["state"]),
                "usual": bool(trial["usual"]),
                "values": dict(trial["values"]),
            }
            for trial in data["trials"]
        ]
        return SearchData(
            folder,
            str(data["env"]),
            str(data["algorithm"]),
            int(data["timesteps"]),
            trials,
            {str(name): _finite(share) for name, share in data["importance"].items()},
            {
                str(label): {str(seed): _finite(score) for seed, score in scores.items()}
                for label, scores in data["confirmed"].items()
            },
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FileFormatError(f"{path} is damaged: {type(error).__name__} {error}") from None


def _finite(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{value} is no number")
    return number


def draw(folder: Path) -> list[Path]:
    """Write history.png and importance.png, and the same as SVG, beside a search."""
    search, paths = read(folder), list[Path]()
    with style.drawing():
        for name, figure in _figures(search).items():
            paths += style.save_figure(figure, folder / name)
    return paths


def _figures(search: SearchData) -> dict[str, "Figure"]:
    figures: dict[str, Figure] = {}
    if search.scored:
        figures["history"] = _history(search)
    if search.importance:
        figures["importance"] = _importance(search)
    return figures


def _history(search: SearchData) -> "Figure":
    """The value of each trial, and the best so far."""
    from matplotlib.ticker import MaxNLocator

    figure = style.new_figure(6, 3)
    axis = figure.subplots()
    best = list(itertools.accumulate((trial["value"] for trial in search.scored), max))
    axis.step([t["number"] for t in search.scored], best, where="post", label="best so far")
    others = [trial for trial in search.scored if not trial["usual"]]
    axis.scatter(
        [t["number"] for t in others], [t["value"] for t in others], s=14, color="#555555", label="trial"
    )
    usual = [trial for trial in search.scored if trial["usual"]]
    if usual:
        axis.scatter(
            [t["number"] for t in usual],
            [t["value"] for t in usual],
            s=40,
            marker="D",
            color=style.COLORS[1],
            label="default",
        )
    lost = [trial["number"] for trial in search.trials if trial["value"] is None]
    if lost:
        floor = min(trial["value"] for trial in search.scored)
        axis.scatter(lost, [floor] * len(lost), s=18, marker="x", color="#999999", label="pruned or failed")
    axis.set(xlabel="trial", ylabel="return", title=style.plain(search.title))
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.legend()
    return figure


def _importance(search: SearchData) -> "Figure":
    """How much each setting matters."""
    names = sorted(search.importance, key=lambda name: search.importance[name])
    figure = style.new_figure(6, 0.8 + 0.25 * len(names))
    axis = figure.subplots()
    axis.barh([style.plain(name) for name in names], [search.importance[name] for name in names])
    axis.set(xlabel="importance", title=style.plain(search.title))
    axis.grid(visible=False, axis="y")
    return figure


def pictures(search: SearchData) -> dict[str, str]:
    """Caption -> figure as a data URI."""
    captions = {
        "history": "every trial, and the best so far",
        "importance": "which settings matter (PED-ANOVA)",
    }
    found = {}
    with style.drawing():
        for name, figure in _figures(search).items():
            buffer = io.BytesIO()
            figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
            uri = f"data:image/svg+xml;base64,{base64.b64encode(buffer.getvalue()).decode()}"
            found[f"{search.title}: {captions[name]}"] = uri
    return found


def table(search: SearchData) -> Table:
    """The best trials and the default, with what they set, and how the two did on other seeds."""
    ranked = sorted(search.scored, key=lambda trial: -trial["value"])
    shown = ranked[:SHOWN] + [trial for trial in ranked[SHOWN:] if trial["usual"]]
    usual = next((trial["values"] for trial in search.trials if trial["usual"]), {})
    rows: list[list[Value]] = [
        [
            f"{trial['run']}, the default" if trial["usual"] else trial["run"],
            float(trial["value"]),
            ", ".join(f"{name} {_short(v)}" for name, v in trial["values"].items() if v != usual.get(name))
            or "",
        ]
        for trial in shown
    ]
    states = [trial["state"] for trial in search.trials]
    notes = [
        f"{len(states)} trials of {search.timesteps:,} transitions: {states.count('complete')} complete, "
        f"{states.count('pruned')} pruned, {states.count('failed')} failed. A trial's return is the mean of its last "
        "three evaluations."
    ]
    for label, scores in search.confirmed.items():
        if scores:
            mean = sum(scores.values()) / len(scores)
            each = ", ".join(f"{score:,.1f} (seed {seed})" for seed, score in scores.items())
            notes.append(f"{label}: {mean:,.1f}, the mean of {each}")
    columns = ["trial", "return", "settings that differ"]
    return Table("search", search.title, columns, rows, notes, {"return": ",.1f"})


def _short(value: Any) -> str:
    return "automatic" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)
