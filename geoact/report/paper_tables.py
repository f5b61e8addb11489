"""The paper's tables and figures from whatever runs are there, our numbers beside the paper's.

Both scores of our runs are shown. The paper's numbers stand beside our training return, because they are that: the
caption of its Table 1 says "average return over final training steps", and for Humanoid it gives a deterministic
evaluation after training (6,591) apart from the table's number (5,823).
The deterministic evaluation of a run is usually higher than its training return.

Budgets are given in transitions and in vector steps, the paper's unit. What is missing is said where its number
would be, with the command that makes it.

A table comes in two forms: one row per task and variant, as the paper has them, and `_details`, with the
interquartile mean and its bootstrap interval. With two or more variants a third, `_aggregate`, compares them over
all tasks that they share.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from geoact.config import unknown
from geoact.errors import InputError
from geoact.experiments.catalogue import EXPERIMENTS, Experiment, Variant
from geoact.experiments.paper_numbers import paper_numbers, paper_scale
from geoact.report import ablation, evidence, milestones
from geoact.report.collect import SCORES, RunData, RunGroup, Score, groups_of
from geoact.report.comparison import (
    Groups,
    aggregate,
    details,
    draw_profiles,
    mean_std,
    number,
)
from geoact.report.curves import draw_curves, draw_scales
from geoact.report.tables import Table, Value
from geoact.storage import files
from geoact.storage.runs import SCALE_DEVIATION


@dataclass(frozen=True)
class PaperItem:
    """A table or figure of the paper (or of ours, in its form), and what it is made from."""

    kind: Literal["words", "table", "returns", "scales", "study", "checkpoints"]
    """table, returns and scales are made from runs; study: one of `geoact analyze`; checkpoints: from evaluations of
    the paper's files; words: nothing to make."""
    source: str
    """The experiment of the catalogue, the study, or where to read."""
    about: str
    """What it shows, and whether ours and the paper's are the same quantity."""
    numbers: str | None = None
    """Key of its numbers in paper.json."""
    before: str | None = None
    """What it was called in version 0.1, which counted the paper's figures wrongly."""


SAME_CURVES = "training returns, as the paper's; it gives no numbers for its curves but their ends, in"

ITEMS: dict[str, PaperItem] = {
    "table1": PaperItem(
        "table",
        "table1",
        "returns on six MuJoCo tasks: the paper's in training, ours both ways, the same quantity first",
        "table1_mujoco",
    ),
    "table2": PaperItem(
        "table",
        "table2",
        "returns on six DMControl tasks: the paper's in training, ours both ways, the same quantity first",
        "table2_dmcontrol",
    ),
    "table3": PaperItem(
        "table",
        "table3",
        "ablations on HalfCheetah: the paper's in training, ours both ways, the same quantity first",
        "table3_ablation_halfcheetah",
    ),
    "tableA1": PaperItem(
        "study",
        "concentration",
        "mean cosine and spread of the angle: the paper's samples, ours, and the exact values",
        "tableA1_concentration",
    ),
    "tableA2": PaperItem(
        "table",
        "tableA2",
        "fixed and learned scale on Walker2d: the paper's in training, ours both ways, the same quantity first",
        "tableA2_walker2d_500k",
    ),
    "tableA3": PaperItem(
        "study",
        "cost",
        "time per action relative to SAC; not the same quantity: the paper's on its GPU, ours on one core",
        "complexity",
    ),
    "fig1": PaperItem("words", "docs/method.md", "the architecture: nothing is measured in it"),
    "fig2": PaperItem("returns", "table1", f"learning curves on MuJoCo: {SAME_CURVES} table1", before="fig3"),
    "fig3": PaperItem(
        "returns", "table2", f"learning curves on DMControl: {SAME_CURVES} table2", before="fig4"
    ),
    "fig4": PaperItem(
        "returns", "table3", f"learning curves of the ablations: {SAME_CURVES} table3", before="fig5"
    ),
    "figA1": PaperItem("study", "concentration", "samples on the sphere, d = 3, as the paper's"),
    "figA2": PaperItem(
        "study",
        "saturation",
        "coordinates without gradient; SAC's by the paper's criterion, others by their own and all by a common one",
        "figureA2_gradient_saturation",
    ),
    "figA3": PaperItem(
        "scales",
        "table2",
        "the learned scale on DMControl: in the end and over training, the paper's final means beside ours",
        "figureA3_scale_convergence",
    ),
    "figA4": PaperItem(
        "scales",
        "tableA2",
        "Walker2d: (a) returns in training, (b) mean scale, (c) its deviation over dimensions, as the paper's",
    ),
    "checkpoints": PaperItem(
        "checkpoints",
        "published",
        "the published checkpoints: deterministic episodes, theirs and ours",
        "published_checkpoints_deterministic_10_episodes",
    ),
    "beyond": PaperItem("table", "beyond", "ours: exact entropy and slack"),
    "weight": PaperItem(
        "table", "weight", "ours: the released policies' constant weight against a learned one"
    ),
    "evidence": PaperItem("table", "evidence", "ours: all twelve tasks at one reduced budget"),
    "fast": PaperItem(
        "table", "fast", "ours: gac-fast after 60,000 or 100,000 updates beside the paper's million"
    ),
    "long": PaperItem(
        "table", "long", "ours: gac-fast for 200,000 vector steps, held against the paper's number"
    ),
    "recipe": PaperItem("table", "recipe", "ours: what each ingredient of gac-fast is worth"),
    "growing": PaperItem("table", "growing", "ours: gac-fast made larger, at equal core time"),
}
"""By the names that `geoact paper` takes, those of the paper. What is not in it comes last."""


class Form(Protocol):
    """A module that makes a table of ours, and what is drawn beside it."""

    def table(self, experiment: Experiment, groups: Groups, skipped: list[str]) -> Table: ...

    def make(self, experiment: Experiment, groups: Groups, skipped: list[str], out: Path) -> list[Path]: ...


OWN_FORMS: dict[str, Form] = {
    "evidence": evidence,
    "fast": milestones,
    "long": milestones,
    "recipe": ablation,
    "growing": ablation,
}
"""Tables of ours that are not in the paper's form."""
FROM_RUNS = tuple(name for name, item in ITEMS.items() if item.kind in ("table", "returns", "scales"))

CHECKPOINTS = (
    "geoact import FILE.pt --out POLICY, geoact evaluate POLICY --episodes 10 --json > published/ENV.json "
    "(results/published/README.md)"
)


def resolve(name: str) -> str:
    """The item that a name means: table1, Table A.2, figureA3, its key in paper.json, or fig5 of version 0.1."""

    def key(text: str) -> str:
        return re.sub(r"[\s._-]", "", text.lower()).replace("figure", "fig")

    names = {key(item.before): item_name for item_name, item in ITEMS.items() if item.before}
    names |= {key(item.numbers): item_name for item_name, item in ITEMS.items() if item.numbers}
    names |= {key(item): item for item in ITEMS}
    if key(name) not in names:
        raise InputError(unknown("table or figure", name, [*ITEMS, "all"]))
    return names[key(name)]


def how_to_make(name: str) -> str:
    """The command that makes what an item needs."""
    item = ITEMS[name]
    if item.kind == "study":
        runs = " POLICY" if item.source == "saturation" else ""
        return f"geoact analyze {item.source}{runs}"
    if item.kind == "checkpoints":
        return CHECKPOINTS
    return f"see {item.source}" if item.kind == "words" else f"geoact sweep {item.source}"


def missing(name: str, runs: list[RunData]) -> str | None:
    """What an item lacks, and the command that makes it; None if every variant has a run that ended on every task."""
    item = ITEMS[name]
    if name not in FROM_RUNS:
        return how_to_make(name)
    experiment = EXPERIMENTS[item.source]
    groups, command = groups_of(experiment, runs), how_to_make(name)
    if (
        item.kind == "scales" and len(experiment.tasks) > 1
    ):  # of one task, all variants' returns are shown too
        labels = [label for label, v in experiment.variants.items() if has_learned_scale(v)]
        groups = {key: group for key, group in groups.items() if key[1] in labels}
        command = f"{command} --algorithms {' '.join(labels)}"
    without = sum(not _ended(group) for group in groups.values())
    return f"{without} of {len(groups)} entries have no finished run: {command}" if without else None


def has_learned_scale(variant: Variant) -> bool:
    """Whether a variant's policy has a scale of its own for each dimension."""
    return getattr(variant.config(), "scale", None) == "learned"


def paper_value(experiment: Experiment, task: str, label: str) -> Any:
    """What the paper has at this place: [mean, standard deviation], a text, or None."""
    column = experiment.variants[label].paper
    if experiment.paper is None or column is None:
        return None
    numbers = paper_numbers()[experiment.paper]
    return numbers[task][column] if task in numbers else numbers[column]


def paper_entry(experiment: Experiment, task: str, label: str) -> str:
    """The same in words."""
    value = paper_value(experiment, task, label)
    if isinstance(value, list):
        return f"{number(value[0])} ± {number(value[1])} (n=5)"
    return str(value) if value is not None else ""


def our_entry(group: RunGroup, kind: Score) -> str:
    """Our score, or what must be said in its place."""
    scores = list(group.scores(kind).values())
    if not group.runs:
        return "no runs"
    return "; ".join(([mean_std(scores)] if scores else []) + group.remarks([kind]))


def notes(experiment: Experiment, groups: Groups, skipped: list[str]) -> list[str]:
    """What stands below a table."""
    lines = [
        f"Ours, training: {SCORES['training']}. Ours, evaluation: {SCORES['eval']}. "
        "Mean ± sample standard deviation over n seeds."
    ]
    if experiment.paper is not None:
        lines.append(
            "The paper's numbers (± standard deviation over 5 seeds) are training returns, by the caption of its "
            "Table 1 the average over final training steps: compare them with ours, training. The deterministic "
            "evaluation is another quantity, and usually higher."
        )
        lines.append("A step of the paper is a vector step: 8 transitions, one of each environment.")
        if any(not variant.off_policy for variant in experiment.variants.values()):
            lines.append(
                "PPO: CleanRL's PPO counts transitions where its SAC and TD3 count steps of the loop, so the paper's "
                "PPO may have had an eighth of the others' transitions. Ours has as many as the others, unless it was "
                "trained with --ppo-budget transitions."
            )
        contradictions = paper_numbers()["contradictions"].get(experiment.paper, [])
        lines += [f"The paper differs from itself: {text}." for text in contradictions]
    lines += [f"{task.name}: {task.note}." for task in experiment.tasks if task.note]
    lines += experiment.notes
    empty = sorted(f"{group.label} on {group.task}" for group in groups.values() if not _ended(group))
    if empty:
        lines.append(
            f"Without a finished run ({len(empty)} of {len(groups)}; geoact sweep {experiment.name} makes them): "
            f"{', '.join(empty)}."
        )
    return lines + [f"Skipped {line}." for line in skipped]


def _ended(group: RunGroup) -> bool:
    """Whether any run came to its end; one that diverged is an answer, too."""
    return any(run.state in ("finished", "failed") for run in group.runs)


def as_printed(experiment: Experiment, groups: Groups, skipped: list[str]) -> Table:
    """The table with the paper's rows: one per task and variant, both of our scores, and both counts of steps."""
    in_paper = experiment.paper is not None
    columns = ["task"] * (len(experiment.tasks) > 1) + ["variant", "ours, training"]
    columns += ["paper (training)"] * in_paper + ["ours, evaluation", "our transitions", "our vector steps"]
    columns += ["paper's vector steps"] * in_paper
    relative = len(experiment.tasks) == 1 and experiment.name == "table3"
    if relative:
        columns += ["relative, ours", "relative, paper"]
    parameters = experiment.name == "tableA2"
    if parameters:
        columns += ["parameters, paper"]
    first = next(iter(experiment.variants))
    rows: list[list[Value]] = []
    for task in experiment.tasks:
        name = f"{task.name} (ours: {task.env})" if task.note else task.name
        for label, variant in experiment.variants.items():
            group = groups.get((task.name, label))
            if group is None:
                continue
            row: list[Value] = [name] * (len(experiment.tasks) > 1)
            row += [
                _row_name(experiment, label) if len(experiment.tasks) == 1 else label,
                our_entry(group, "training"),
            ]
            row += [paper_entry(experiment, task.name, label)] * in_paper
            row += [our_entry(group, "eval"), group.budget[0] if group.budget else None, group.vector_steps]
            row += [_paper_steps(task.vector_steps, experiment.num_envs, variant)] * in_paper
            if relative:
                row += [
                    _relative(*(groups[task.name, key].mean("training") for key in (label, first))),
                    _relative(*(_first(paper_value(experiment, task.name, key)) for key in (label, first))),
                ]
            if parameters:
                row += [_parameters(variant)]
            rows.append(row)
    formats = {name: "," for name in columns if name.endswith(("transitions", "vector steps"))}
    below = notes(experiment, groups, skipped)
    if relative:
        below.append(f"Relative: difference of the means from {first}'s; ours by the training return.")
    if parameters:
        below.append(
            "Parameters: what a learned scale adds, by the paper; ours adds 64 weights and a bias per dimension."
        )
    return Table(experiment.name, experiment.title, columns, rows, below, formats)


def _row_name(experiment: Experiment, label: str) -> str:
    """The paper's name of a row; with ours, where several of our variants may be meant by it."""
    variants = experiment.variants
    name = variants[label].paper or label
    alone = [variant.paper for variant in variants.values()].count(name) < 2
    return name if alone else f"{name} ({label})"


def _paper_steps(vector_steps: int, num_envs: int, variant: Variant) -> Value:
    """The paper's steps as vector steps; in both readings where its PPO may have counted transitions."""
    if variant.off_policy:
        return vector_steps
    return f"{vector_steps:,} or {vector_steps // num_envs:,}"


def _first(value: Any) -> float | None:
    return float(value[0]) if isinstance(value, list) else None


def _relative(value: float | None, base: float | None) -> str:
    if value is None or base is None or base <= 0:
        return ""
    return f"{100 * (value / base - 1):+.1f} %" if value != base else "0 %"


def _parameters(variant: Variant) -> str:
    extra = paper_numbers()["tableA2_walker2d_500k"]["adaptive_extra_parameters"]
    return f"+{extra}" if has_learned_scale(variant) else "+0"


def scale_table(name: str, title: str, groups: Groups) -> Table:
    """The learned scale in the end, ours beside the paper's, with both budgets."""
    numbers = paper_numbers()
    steps = numbers["figureA3_scale_convergence"]["vector_steps"]  # Table A.2's are as long
    columns = ["task", "variant", "mean scale, ours", "mean scale, paper"]
    columns += ["range of the mean over training, ours", "range over training, paper"]
    columns += ["deviation over dimensions, ours", "deviation over dimensions, paper"]
    columns += ["our transitions", "our vector steps", "paper's vector steps", "remarks"]
    rows: list[list[Value]] = []
    for (task, label), group in groups.items():
        runs = [run for run in group.counted() if run.series("policy/scale")]
        every = [value for run in runs for _, value in run.series("policy/scale")]
        reached = [int(run.rows[-1]["step"]) for run in runs]
        paper = paper_scale(task)
        rows.append(
            [
                task,
                label,
                _late(runs, "policy/scale") or "no runs",
                paper.mean,
                f"{min(every):.2f} to {max(every):.2f}" if every else "",
                paper.rise,
                _late(runs, SCALE_DEVIATION) or ("not logged" if runs else ""),
                paper.deviation,
                _from_to(reached),
                _from_to([step // run.config.num_envs for step, run in zip(reached, runs)]),
                steps,
                "; ".join(group.remarks([])),
            ]
        )
    notes = [
        "Ours: mean over the last tenth of what each run has trained, ± sample standard deviation over n seeds; the "
        "deviation over dimensions is that of their means over a batch. Range: the lowest and the highest mean logged "
        "in any run; the paper gives it where it says how the scale rises.",
        "The paper's are its final values. A shorter run has not converged: compare the direction.",
    ]
    contradictions = numbers["contradictions"].get(ITEMS[name].numbers or "", [])
    notes += [f"The paper differs from itself: {text}." for text in contradictions]
    return Table(name, title, columns, rows, notes, {"paper's vector steps": ","})


def _late(runs: list[RunData], metric: str) -> str:
    """A metric in the end, over runs; empty if none has logged it."""
    found = [value for run in runs if (value := run.late_mean(metric)) is not None]
    return mean_std(found) if found else ""


def _from_to(values: list[int]) -> str:
    ends = sorted({min(values), max(values)}) if values else []
    return " to ".join(f"{value:,}" for value in ends)


def checkpoints(folder: Path) -> Table | None:
    """The published checkpoints: what `geoact evaluate --json` said of them, in this folder or its `published`."""
    numbers = paper_numbers()["published_checkpoints_deterministic_10_episodes"]
    stated = {name.split(" ")[0]: value for name, value in numbers.items() if name != "note"}
    rows: list[list[Value]] = []
    for path in sorted((*folder.glob("*.json"), *folder.glob("published/*.json"))):
        try:
            found = files.read_json(path)
        except InputError:
            continue
        if found.get("env") in stated and not found.get("stochastic", True):
            mean, std = stated[found["env"]]
            ours = f"{found['return_mean']:,.0f} ± {found['return_std']:,.0f}"
            which = [found["episodes"], found["seed"], path.name]
            rows.append([found["env"], f"{mean:,} ± {std:,}", ours, *which])
    if not rows:
        return None
    without = [name for name in stated if name not in {row[0] for row in rows}]
    notes = [
        "Both: deterministic episodes, mean ± standard deviation over them; the published ones are ten. They stand in "
        "the README of the authors' repository; of these only Humanoid's stands in the paper."
    ]
    notes += [f"Not evaluated here: {', '.join(without)}."] if without else []
    columns = ["environment", "published", "ours", "our episodes", "first seed", "file"]
    return Table("checkpoints", "The published checkpoints", columns, rows, notes)


def make_table(name: str, runs: list[RunData], skipped: list[str], out: Path, kind: Score) -> list[Path]:
    """Write one of the tables, in all its forms."""
    experiment = EXPERIMENTS[ITEMS[name].source]
    groups = groups_of(experiment, runs)
    entries = {key: paper_entry(experiment, *key) for key in groups} if experiment.paper else None
    if name in OWN_FORMS:
        paths = OWN_FORMS[name].make(experiment, groups, skipped, out)
        return paths + details(name, experiment.title, groups, entries).write(out)
    paths = as_printed(experiment, groups, skipped).write(out)
    paths += details(name, experiment.title, groups, entries).write(out)
    together = aggregate(name, experiment.title, groups)
    if together is not None:
        paths += together.write(out)
        paths += draw_profiles(out / f"{name}_profiles", experiment.title, groups, kind)
    return paths


def make_figure(name: str, runs: list[RunData], out: Path, kind: Score) -> list[Path]:
    """Draw one of the figures."""
    experiment = EXPERIMENTS[ITEMS[name].source]
    groups = groups_of(experiment, runs)
    if ITEMS[name].kind == "scales":
        learned: Mapping[tuple[str, str], RunGroup] = {
            key: group for key, group in groups.items() if has_learned_scale(experiment.variants[key[1]])
        }
        title = f"{experiment.title}: the learned scale"
        together = groups if len(experiment.tasks) == 1 else None
        return scale_table(name, title, learned).write(out) + draw_scales(
            out / name, title, learned, together, kind
        )
    names = {task.name: f"{task.name} (run as {task.env})" for task in experiment.tasks if task.note}
    return draw_curves(out / name, experiment.title, groups, kind, names)


def make(
    name: str, runs: list[RunData], skipped: list[str], out: Path, kind: Score = "training"
) -> list[Path]:
    """One of the tables or figures that are made from runs, by its name; the files written.

    Tables show both scores; `kind` is the one that figures show.
    """
    name = resolve(name)
    if name not in FROM_RUNS:
        raise InputError(f"{name} is not made from runs: {how_to_make(name)}")
    if ITEMS[name].kind == "table":
        return make_table(name, runs, skipped, out, kind)
    return make_figure(name, runs, out, kind)
