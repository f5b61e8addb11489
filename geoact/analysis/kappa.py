"""The concentration that policies have learned: over states, against value and time, and over training.

The paper says of kappa that it stays within [0, 5], that w is about 0.85, and that it is high "in confident states"
and low "in uncertain regions". Three looks at that:

- policies (the paper's published files, and ours) play exploring episodes: the distribution of kappa and w over
  the states they meet, and its rank correlation with the value (the discounted rewards that followed, gamma 0.99)
  and with the time in the episode;
- runs: the mean w of a batch over training.

kappa means different things in different files: ours have w = sigmoid(kappa), the published ones
w = sigmoid(min(kappa, 20) / 2). w is the same everywhere: the direction's share of the mixture.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from geoact import policies
from geoact.analysis.exploring import Episode, explore
from geoact.errors import InputError
from geoact.report import style
from geoact.report.collect import RunData, collect
from geoact.report.tables import Value, write_table
from geoact.runtime import NUMPY, Policy, load

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GAMMA = 0.99
CUT_OFF = 300
"""States at the end of an episode whose time was over: what would have followed is missing from their value."""
STATED = (0.0, 5.0)
"""The paper's range of kappa."""


@dataclass(frozen=True)
class Course:
    """What a policy's concentration did in its episodes, one entry per state."""

    name: str
    policy: Policy
    kappa: np.ndarray
    weight: np.ndarray
    time: np.ndarray
    value: np.ndarray
    """NaN where it is not known."""
    score: float
    """Mean return of the episodes."""


def concentration(policy: Policy, obs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """kappa and w in each state.  # [states, obs_dim] -> [states], [states]"""
    spec = policy.spec
    outputs = policies.geometric_outputs(NUMPY, spec.head, policy.tensors, policy.hidden(obs))
    kappa, weight = (
        np.broadcast_to(np.asarray(x).reshape(-1), len(obs)) for x in (outputs.kappa, outputs.weight)
    )
    return kappa.astype(np.float64), weight.astype(np.float64)


def known_value(episode: Episode) -> np.ndarray:
    """The discounted rewards that followed each state; NaN where the end of the time cut them off."""
    value = episode.returns_to_go(GAMMA)
    if not episode.terminated:
        value[-CUT_OFF:] = np.nan
    return value


def follow(name: str, policy: Policy, episodes: int, seed: int) -> Course:
    """Play a policy and look at its concentration."""
    played = explore(policy, episodes, seed)
    kappa, weight = concentration(policy, np.concatenate([episode.obs for episode in played]))
    return Course(
        name,
        policy,
        kappa,
        weight,
        np.concatenate([np.arange(len(episode.rewards)) for episode in played]),
        np.concatenate([known_value(episode) for episode in played]),
        float(np.mean([episode.rewards.sum() for episode in played])),
    )


def rank_correlation(a: np.ndarray, b: np.ndarray) -> float | None:
    """Spearman's; None where one of them does not vary."""
    from scipy.stats import rankdata

    known = ~np.isnan(a) & ~np.isnan(b)
    a, b = rankdata(a[known]), rankdata(b[known])
    if len(a) < 2 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return None
    return float(np.corrcoef(a, b)[0, 1])


def means(x: np.ndarray, y: np.ndarray, edges: np.ndarray) -> tuple[list[float], list[float]]:
    """The middle of each interval of x that has any points, and their mean y."""
    place = np.digitize(x, edges) - 1
    there = [i for i in range(len(edges) - 1) if (place == i).any()]
    return [float(edges[i] + edges[i + 1]) / 2 for i in there], [float(y[place == i].mean()) for i in there]


def find(paths: list[Path]) -> tuple[dict[str, Policy], list[RunData]]:
    """The geometric policies and the runs with a concentration among what was given."""
    from geoact.deploy import published

    found: dict[str, Policy] = {}
    runs: list[RunData] = []
    for path in paths:
        if path.suffix == ".pt":
            policy = published.to_policy(published.read_checkpoint(path))
            found[f"{policy.spec.env} (published)"] = policy
            continue
        if path.is_dir() and not (path / "policy.json").is_file():
            inside, _ = collect(path)
            runs += [run for run in inside if run.series("policy/weight")]
            with_policy = [run.path for run in inside if (run.path / "policy" / "policy.json").is_file()]
            found |= {member.name: load(member) for member in with_policy}
        else:
            found[path.name] = load(path)
    return {name: policy for name, policy in found.items() if policy.spec.kind == "geometric"}, runs


def run(out: Path, runs: list[Path], seed: int = 0, episodes: int = 5) -> list[Path]:
    """Play the policies, read the runs; write the tables and the figure."""
    found, trained = find(runs)
    if not found and not trained:
        raise InputError(
            "no geometric policy and no run with a concentration here: give runs or policies of gac"
        )
    courses = [follow(name, policy, episodes, seed) for name, policy in found.items()]
    files = _policy_table(out, courses, episodes, seed) if courses else []
    files += _run_table(out, trained) if trained else []
    with style.drawing():
        return files + _figure(out, courses, trained)


def _policy_table(out: Path, courses: list[Course], episodes: int, seed: int) -> list[Path]:
    rows: list[list[Value]] = []
    for course in courses:
        low, high = STATED
        rows.append(
            [
                course.name,
                course.policy.spec.env,
                course.policy.spec.head.concentration,
                len(course.kappa),
                *(float(number(course.weight)) for number in (np.min, np.mean, np.max)),
                *(float(number(course.kappa)) for number in (np.min, np.mean, np.max)),
                float(np.mean((course.kappa >= low) & (course.kappa <= high))),
                rank_correlation(course.kappa, course.value),
                rank_correlation(course.kappa, course.time),
                course.score,
            ]
        )
    columns = ["policy", "environment", "form", "states"]
    columns += [f"{name} {part}" for name in ("w", "kappa") for part in ("lowest", "mean", "highest")]
    columns += ["kappa in [0, 5]", "correlation with value", "correlation with time", "return"]
    formats = {"states": ",", "return": ",.0f"} | {
        name: ".3f" if name.startswith(("w", "kappa")) else ".2f" for name in columns[4:13]
    }
    note = (
        f"States of {episodes} exploring episodes, seed {seed}. Correlations of kappa: Spearman's; value: the "
        f"discounted rewards that followed (gamma {GAMMA}), without the last {CUT_OFF} states of episodes whose time "
        "was over. Form published: w = sigmoid(min(kappa, 20) / 2); else w = sigmoid(kappa). The paper says: kappa in "
        "[0, 5], w about 0.85. Where w is practically constant, its correlations say nothing about exploration."
    )
    return write_table(
        out / "kappa", "The concentration that policies have learned", columns, rows, note, formats
    )


def _run_table(out: Path, runs: list[RunData]) -> list[Path]:
    rows: list[list[Value]] = []
    for run in runs:
        weights = [value for _, value in run.series("policy/weight")]
        rows.append(
            [
                run.task,
                run.label,
                run.config.seed,
                int(run.series("policy/weight")[-1][0]["step"]),
                weights[0],
                min(weights),
                max(weights),
                run.late_mean("policy/weight"),
                run.late_mean("policy/kappa"),
            ]
        )
    columns = ["task", "variant", "seed", "transitions", "w first", "w lowest", "w highest", "w in the end"]
    columns += ["kappa in the end"]
    formats = dict.fromkeys(columns[4:], ".3f") | {"transitions": ","}
    note = "Means over a batch from replay; in the end: over the last tenth of what was trained. w = sigmoid(kappa)."
    return write_table(
        out / "kappa_training", "The concentration over training", columns, rows, note, formats
    )


def _figure(out: Path, courses: list[Course], runs: list[RunData]) -> list[Path]:
    """Of the policies that were played three panels, of the runs one."""
    if courses and runs:
        figure = style.new_figure(10.2, max(6.4, 3.6 + 0.28 * len(courses)))
        (spread, training), (time, value) = figure.subplots(2, 2)
        _plot_states(courses, spread, time, value)
        _plot_training(runs, training)
    elif courses:
        figure = style.new_figure(13.2, max(3.6, 1.2 + 0.28 * len(courses)))
        _plot_states(courses, *figure.subplots(1, 3))
    else:
        figure = style.new_figure(6.4, 4.2)
        _plot_training(runs, figure.subplots())
    return style.save_figure(figure, out / "kappa")


def _plot_states(courses: list[Course], spread: "Axes", time: "Axes", value: "Axes") -> None:
    """What the concentration is over states, over an episode, and by value."""
    for i, course in enumerate(courses):
        color = style.COLORS[i % len(style.COLORS)]
        low, first, last, high = np.quantile(course.weight, (0.0, 0.05, 0.95, 1.0))
        spread.plot([low, high], [i, i], color=color, lw=1)
        spread.plot([first, last], [i, i], color=color, lw=5, solid_capstyle="butt")
        spread.plot([course.weight.mean()], [i], "o", color="k", ms=4)
        name, line = style.plain(course.name), ("-", "--", ":")[i % 3]
        edges = np.arange(0, course.time.max() + 51, 50)
        time.plot(*means(course.time, course.weight, edges), line, color=color, label=name)
        known = ~np.isnan(course.value)
        if known.any():
            ranks = np.argsort(np.argsort(course.value[known])) / known.sum()
            found = means(ranks, course.weight[known], np.linspace(0, 1, 21))
            value.plot(*found, line, color=color, label=name)
    spread.set_yticks(range(len(courses)), [style.plain(course.name) for course in courses])
    spread.invert_yaxis()
    spread.set(title="w over states: all, 5 % to 95 %, mean", xlabel="w", xlim=(0.45, 1.02))
    time.set(title="mean w over the episode", xlabel="step of the episode", ylabel="w", ylim=(0.45, 1.02))
    value.set(title="mean w by value", xlabel="rank of the state's value", ylabel="w", ylim=(0.45, 1.02))
    time.legend(fontsize=6.5)


def _plot_training(runs: list[RunData], axis: "Axes") -> None:
    """What it has been over training, beside what the paper says of it."""
    labels = list(dict.fromkeys((run.task, run.label) for run in runs))
    for i, label in enumerate(labels):
        for j, run in enumerate(r for r in runs if (r.task, r.label) == label):
            points = [(row["step"], weight) for row, weight in run.series("policy/weight")]
            name = style.plain(f"{label[0]}, {label[1]}") if j == 0 else None
            axis.plot(*zip(*points), color=style.COLORS[i % len(style.COLORS)], lw=1.2, label=name)
    axis.axhline(0.85, color="0.4", ls="--", lw=1, label="the paper's typical w")
    axis.set(title="mean w over training", xlabel="transitions", ylabel="w", ylim=(0, 1.02))
    axis.xaxis.set_major_formatter(style.thousands)
    axis.legend(fontsize=6.5)
