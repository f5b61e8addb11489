"""From benchmarks/results/*.json to the tables and the figure of docs/performance.md.

    python -m benchmarks.report

Every number comes from the JSON; what was not measured is said. A ratio is taken round by round, between bursts
that were seconds apart, and stands with its median, smallest and largest value.
"""

import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from benchmarks import returns
from benchmarks.flops import flops, update_products
from geoact.report.style import COLORS, drawing, new_figure, save_figure
from geoact.report.tables import Value, write_table
from geoact.storage.files import write_bytes

ROOT = Path(__file__).parent.parent
HALFCHEETAH = (17, 6)
"""Sizes of its observation and action: the bare update is measured there."""
ROLLOUT = 2048

LABELS = {
    "geoact": "geoact",
    "geoact-gac": "geoact, GAC",
    "sb3": "Stable-Baselines3",
    "sbx": "SBX",
    "torch": "PyTorch loop",
    "numpy": "products alone, NumPy",
    "jax": "products alone, JAX",
}


def label(contestant: str, what: str = "") -> str:
    return "products alone, PyTorch" if (contestant, what) == ("torch", "products") else LABELS[contestant]


class Spread(NamedTuple):
    """What the rounds gave."""

    middle: float
    low: float
    high: float


def spread(values: Sequence[float]) -> Spread:
    return Spread(median(values), min(values), max(values))


class Results:
    """All cases that have been measured."""

    def __init__(self, folder: Path):
        self.cases: dict[str, dict[str, Any]] = {
            path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("?.json"))
        }

    def measurements(self, case: str) -> list[dict[str, Any]]:
        groups = self.cases[case]["groups"] if case in self.cases else []
        return [m for group in groups for m in group["measurements"] if m["rounds"]]

    def rounds(self, case: str, **wanted: object) -> list[float] | None:
        """The one measurement with these fields."""
        found = [m["rounds"] for m in self.measurements(case) if all(m[k] == v for k, v in wanted.items())]
        assert len(found) <= 1, f"{wanted} fits {len(found)} measurements of case {case}"
        return found[0] if found else None

    def ratio(self, case: str, of: str, to: str, **wanted: object) -> Spread | None:
        """How many times as much one contestant takes as another."""
        upper = self.rounds(case, contestant=of, **wanted)
        lower = self.rounds(case, contestant=to, **wanted)
        return spread([a / b for a, b in zip(upper, lower)]) if upper and lower else None

    def roofline(self, cores: list[int]) -> list[float] | None:
        """Operations per second of the fastest library at the bare products, round by round."""
        of_cores = [m for m in self.measurements("b") if m["cores"] == cores]
        passes = [m["rounds"] for m in of_cores if m["what"] == "products"]
        return [flops_of("sac") / min(times) for times in zip(*passes)] if passes else None

    def roofline_share(self, contestant: str, cores: list[int]) -> Spread | None:
        """Counted operations per second of an update over the roofline's."""
        times = self.rounds("b", contestant=contestant, what="update", cores=cores)
        roofline = self.roofline(cores)
        if not times or not roofline:
            return None
        work = flops_of("gac" if contestant == "geoact-gac" else "sac")
        return spread([work / t / r for t, r in zip(times, roofline)])

    def cores(self, case: str, count: int) -> list[int] | None:
        """The cores that were meant by one core, or by two."""
        return next((m["cores"] for m in self.measurements(case) if len(m["cores"]) == count), None)


def flops_of(algorithm: str) -> int:
    return flops(update_products(algorithm, *HALFCHEETAH))


# Targets


@dataclass(frozen=True)
class Target:
    """A number that is to be reached."""

    what: str
    goal: float
    value: Callable[[Results], Spread | None]
    at_least: bool = True
    unit: str = "times"

    def met(self, value: Spread) -> bool:
        return value.middle >= self.goal if self.at_least else value.middle <= self.goal


def _scaled(rounds: list[float] | None, factor: float) -> Spread | None:
    return spread([factor * x for x in rounds]) if rounds else None


TASKS = ("HalfCheetah-v5", "Humanoid-v5", "quadruped-walk")
STEP_GOALS = {(1, "sbx"): 1.2, (1, "sb3"): 1.8, (2, "sbx"): 1.4, (2, "sb3"): 2.3}
ROOFLINE_GOALS = {1: 0.85, 2: 0.75}
_COUNT = {1: "one core", 2: "two cores"}

TARGETS = [
    *(
        Target(
            f"vector step, {env}, {_COUNT[cores]}: {label(peer)} / geoact",
            goal,
            lambda r, e=env, c=cores, p=peer: r.ratio("a", p, "geoact", env=e, cores=r.cores("a", c)),
        )
        for env in TASKS
        for (cores, peer), goal in STEP_GOALS.items()
    ),
    *(
        Target(
            f"bare update, {_COUNT[cores]}: share of the roofline",
            goal,
            lambda r, c=cores: r.roofline_share("geoact", r.cores("b", c) or []),
            unit="",
        )
        for cores, goal in ROOFLINE_GOALS.items()
    ),
    *(
        Target(
            f"bare update, {_COUNT[cores]}: GAC / SAC",
            1.0,
            lambda r, c=cores: r.ratio("b", "geoact-gac", "geoact", what="update", cores=r.cores("b", c)),
            at_least=False,
        )
        for cores in (1, 2)
    ),
    Target(
        "predict, one observation",
        40.0,
        lambda r: _scaled(r.rounds("c", contestant="geoact", observations=1), 1e6),
        at_least=False,
        unit="us",
    ),
    Target(
        "predict, one observation: SBX / geoact", 3.0, lambda r: r.ratio("c", "sbx", "geoact", observations=1)
    ),
    Target(
        "predict, one observation: Stable-Baselines3 / geoact",
        8.0,
        lambda r: r.ratio("c", "sb3", "geoact", observations=1),
    ),
    Target(
        "second start to the first update",
        4.0,
        lambda r: _scaled(r.rounds("d", contestant="geoact", what="second start"), 1.0),
        at_least=False,
        unit="s",
    ),
    Target("second start: SBX / geoact", 2.0, lambda r: r.ratio("d", "sbx", "geoact", what="second start")),
    Target("peak memory: Stable-Baselines3 / geoact", 1.0, lambda r: r.ratio("h", "sb3", "geoact")),
    Target("peak memory: SBX / geoact", 1.0, lambda r: r.ratio("h", "sbx", "geoact")),
]

# Tables


@dataclass(frozen=True)
class View:
    """How a case's measurements are shown."""

    contexts: dict[str, str]
    """Fields that tell its rows apart, and their columns' names."""
    unit: str
    shown: Callable[[float], float]
    """From what was measured (seconds, or bytes) to the unit."""
    format: str = ",.2f"


VIEWS = {
    "a": View({"env": "environment", "cores": "cores"}, "ms per vector step", lambda s: 1e3 * s),
    "b": View({"cores": "cores", "what": "what"}, "ms", lambda s: 1e3 * s),
    "c": View({"observations": "observations"}, "us per call", lambda s: 1e6 * s, ",.1f"),
    "d": View({"what": "what"}, "s", lambda s: s),
    "e": View({"processes": "runs at once"}, "vector steps per s, all together", lambda s: 1 / s, ",.0f"),
    "f": View({"env": "environment"}, "transitions per s", lambda s: ROLLOUT / s, ",.0f"),
    "g": View(
        {
            "what": "what",
            "batch": "batch",
            "width": "width",
            "envs": "environments",
            "updates": "updates per step",
            "filled": "transitions in the buffer",
        },
        "ms",
        lambda s: 1e3 * s,
    ),
    "h": View({}, "MB", lambda b: b / 1e6, ",.0f"),
}


def case_table(results: Results, letter: str, stem: Path) -> str:
    """A case in Markdown (and as CSV beside its JSON)."""
    case, view = results.cases[letter], VIEWS[letter]
    columns = [*view.contexts.values(), "", view.unit, "from", "to", "x geoact", "x from", "x to"]
    if letter == "b":
        columns += ["GFLOP/s", "share of roofline"]
    rows: list[list[Value]] = []
    for m in results.measurements(letter):
        context = {field: m[field] for field in view.contexts}
        value = spread([view.shown(x) for x in m["rounds"]])
        ratio = results.ratio(letter, m["contestant"], "geoact", **context)
        cells = [len(v) if isinstance(v, list) else v for v in context.values()]
        row: list[Value] = [*cells, label(m["contestant"], m["what"]), *value, *(ratio or (None, None, None))]
        if letter == "b":
            work = flops_of("gac" if m["contestant"] == "geoact-gac" else "sac")
            share = results.roofline_share(m["contestant"], m["cores"]) if m["what"] == "update" else None
            row += [work / median(m["rounds"]) / 1e9, share.middle if share else None]
        rows.append(row)
    number = view.format
    formats = {
        view.unit: number,
        "from": number,
        "to": number,
        "x geoact": ".2f",
        "x from": ".2f",
        "x to": ".2f",
    }
    if letter == "b":
        formats |= {"GFLOP/s": ".1f", "share of roofline": ".3f"}
    elif letter == "g":
        formats |= {"transitions in the buffer": ","}
    failed = [
        f"{label(f['contestant'])}, {f['what']}: {f['reason']}" for g in case["groups"] for f in g["failed"]
    ]
    count = len(results.measurements(letter)[0]["rounds"]) if results.measurements(letter) else 0
    versions = ", ".join(f"{name} {number}" for name, number in case["versions"].items())
    turn = "" if letter in "dh" else f" of {case['seconds_per_turn']:g} s"  # those are not timed in bursts
    note = (
        f"{count} round(s){turn}, {case['date']}, load before {case['load_before']:g}, "
        f"{case['cpu']}; {versions}."
    )
    note += "".join(f"\n\nNot measured: {line}." for line in failed)
    return _table(stem, case["title"], columns, rows, note, formats)


def target_table(results: Results, stem: Path) -> str:
    rows: list[list[Value]] = []
    for target in TARGETS:
        value = target.value(results)
        goal = f"{'>=' if target.at_least else '<='} {target.goal:g} {target.unit}".strip()
        verdict = "not measured" if value is None else "met" if target.met(value) else "missed"
        rows.append([target.what, goal, *(value or (None, None, None)), verdict])
    columns = ["what", "target", "median", "from", "to", ""]
    formats = {"median": ".2f", "from": ".2f", "to": ".2f"}
    return _table(stem, "Targets", columns, rows, "", formats)


def minutes(files: list[dict[str, Any]], stem: Path) -> str:
    """Minutes to a return (case i) in Markdown, and as CSV."""
    return _table(stem, "Time to a return", *returns.table(files), {"return": ","})


def _table(
    stem: Path,
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[Value]],
    note: str,
    formats: dict[str, str],
) -> str:
    """The table's Markdown, without its heading; the page has its own."""
    markdown, _ = write_table(stem, title, columns, rows, note, formats)
    text = markdown.read_text().partition("\n\n")[2].strip()
    markdown.unlink()  # the page has it
    return text


# Figure


def draw(results: Results, stem: Path) -> list[Path]:
    """The vector step beside the peers', and the update beside the roofline, with their targets."""
    with drawing():
        figure = new_figure(9, 4)
        left, right = figure.subplots(1, 2)
        places = [(env, cores) for env in TASKS for cores in (1, 2)]
        for peer, color in zip(("sbx", "sb3", "torch"), COLORS):
            for y, (env, cores) in enumerate(places):
                where = {"env": env, "cores": results.cores("a", cores)}
                _point(left, results.ratio("a", peer, "geoact", **where), y, color)
                if (cores, peer) in STEP_GOALS:
                    left.plot([STEP_GOALS[cores, peer]] * 2, [y - 0.35, y + 0.35], color=color, linestyle=":")
            left.plot([], [], "o", color=color, label=label(peer))
        left.axvline(1.0, color="black", linewidth=0.8)
        left.set_yticks(range(len(places)), [f"{env}, {_COUNT[cores]}" for env, cores in places])
        left.invert_yaxis()
        left.set_xlabel("vector step / geoact's (dotted: target)")
        left.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=3)

        names = ("geoact", "geoact-gac", "sbx", "sb3", "torch")
        for cores, color in zip((1, 2), COLORS):
            for y, name in enumerate(names):
                share = results.roofline_share(name, results.cores("b", cores) or [])
                _point(right, share, y + 0.2 * (cores - 1.5), color)
            right.axvline(ROOFLINE_GOALS[cores], color=color, linestyle=":")
            right.plot([], [], "o", color=color, label=_COUNT[cores])
        right.set_yticks(range(len(names)), [label(name) for name in names])
        right.invert_yaxis()
        right.set_xlim(0, None)
        right.set_xlabel("bare update / roofline (dotted: target)")
        right.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2)
        return save_figure(figure, stem)


def _point(axis: Any, value: Spread | None, y: float, color: str) -> None:
    if value is not None:
        axis.plot([value.low, value.high], [y, y], color=color)
        axis.plot([value.middle], [y], "o", color=color)


# Page


def fill_in(page: str, part: str, text: str) -> str:
    """The page with a generated part in place of what stood between its marks."""
    marks = re.compile(rf"(<!-- bench {part} -->\n).*?(<!-- end -->)", re.DOTALL)
    page, count = marks.subn(lambda found: f"{found[1]}{text}\n{found[2]}", page)
    if count != 1:
        raise ValueError(
            f"the page has {count} places for {part!r}, expected one: <!-- bench {part} --> ... <!-- end -->"
        )
    return page


def write(folder: Path, page: Path, front: Path) -> None:
    """Tables and figures from all results in a folder, onto the page; minutes to a return onto the front page, too."""
    results = Results(folder)
    text = fill_in(page.read_text(), "targets", target_table(results, folder / "targets"))
    for letter in VIEWS:
        missing = f'Not measured yet: `make bench CASES="{letter}"`.'
        table = case_table(results, letter, folder / letter) if letter in results.cases else missing
        text = fill_in(text, letter, table)
    table = 'Not measured yet: `make bench CASES="i"`.'
    if files := returns.load(folder / "returns"):
        table = minutes(files, folder / "i")
        write_bytes(front, fill_in(front.read_text(), "i", table).encode())
        png, _ = returns.draw(files, folder / "i")
        table += f"\n\n![Evaluations over minutes of training]({_link(png, page)})"
    text = fill_in(text, "i", table)
    figure = ""
    if results.measurements("a") or results.measurements("b"):
        png, _ = draw(results, folder / "ratios")
        figure = f"![The vector step beside the peers', the update beside the roofline]({_link(png, page)})"
    page.write_text(fill_in(text, "figure", figure))


def _link(path: Path, page: Path) -> str:
    return Path(os.path.relpath(path, page.parent)).as_posix()


if __name__ == "__main__":
    write(ROOT / "benchmarks" / "results", ROOT / "docs" / "performance.md", ROOT / "README.md")
