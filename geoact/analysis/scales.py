"""The learned scale over training: mean and deviation per task, beside what the paper reports (Figures A.3, A.4).

Reads the metrics that runs with a learned scale write: `policy/scale`, the mean over dimensions and the batch, and
`policy/scale_deviation`, the deviation over dimensions, the paper's quantity. Runs of version 0.1 have logged one over
dimensions and states instead (`policy/scale_std`), which is larger: it has a column of its own and is not drawn.
"""

from pathlib import Path

from geoact.errors import InputError
from geoact.experiments.paper_numbers import paper_numbers, paper_scale
from geoact.report import style
from geoact.report.collect import RunData, collect
from geoact.report.tables import Value, write_table
from geoact.storage.runs import SCALE_DEVIATION, SCALE_STD


def run(out: Path, runs: list[Path], seed: int = 0) -> list[Path]:
    """Write the table and the figure. Nothing here is random: `seed` changes nothing."""
    learned: list[RunData] = []
    for path in runs:
        found, _ = collect(path)
        learned += [run for run in found if run.series("policy/scale")]
    if not learned:
        raise InputError("no run with a learned scale here: geoact train ... --algorithm gac-scale makes one")
    numbers = paper_numbers()
    published = numbers["figureA3_scale_convergence"]
    contradictions = numbers["contradictions"]["figureA3_scale_convergence"]
    steps, environments = published["vector_steps"], numbers["protocol"]["num_envs"]
    rows: list[list[Value]] = []
    for run in learned:
        scale = [value for _, value in run.series("policy/scale")]
        paper = paper_scale(run.task)
        rows.append(
            [
                run.task,
                run.config.seed,
                int(run.series("policy/scale")[-1][0]["step"]),
                scale[0],
                max(scale),
                *(run.late_mean(name) for name in ("policy/scale", SCALE_DEVIATION, SCALE_STD)),
                paper.mean,
                paper.deviation,
            ]
        )
    columns = ["task", "seed", "transitions", "first", "largest mean", "mean"]
    columns += ["deviation over dimensions", "over dimensions and states"]
    columns += ["paper's mean", "paper's deviation over dimensions"]
    files = write_table(
        out / "scales",
        "The learned scale",
        columns,
        rows,
        "Mean and deviation over the last tenth of each run; first: at the first logged update. Runs of version 0.1 "
        "have the deviation over dimensions and states together, not over dimensions, the paper's. The paper's runs "
        f"are {steps:,} vector steps ({steps * environments:,} transitions), so compare the direction, not the digits, "
        "with shorter ones." + "".join(f" The paper differs from itself: {text}." for text in contradictions),
        dict.fromkeys(columns[3:8], ".2f") | {"transitions": ",.0f"},
    )
    with style.drawing():
        return files + _figure(out, learned, published)


def _figure(out: Path, runs: list[RunData], published: dict[str, list[float]]) -> list[Path]:
    figure = style.new_figure(8.6, 3.4)
    mean, deviation = figure.subplots(1, 2)
    tasks = sorted({run.task for run in runs})
    for color, task in zip(style.COLORS, tasks):
        for i, run in enumerate(r for r in runs if r.task == task):
            line = ("-", "--", ":", "-.")[i % 4]
            label = f"{task}, seed {run.config.seed}" if len(runs) <= 6 else (None if i else task)
            for axis, name in ((mean, "policy/scale"), (deviation, SCALE_DEVIATION)):
                points = [(row["step"], value) for row, value in run.series(name)]
                if points:
                    axis.plot(*zip(*points), line, color=color, label=label)
        if task in published:
            low, high = published[task]
            mean.axhspan(
                low - 0.01,
                high + 0.01,
                color=color,
                alpha=0.12,
                lw=0,
                label=f"{task}, the paper's in the end",
            )
    mean.set(title="mean of the learned scale", ylabel="r")
    deviation.set(title="deviation over dimensions", ylabel="standard deviation")
    for axis in (mean, deviation):
        axis.set_xlabel("transitions")
        axis.xaxis.set_major_formatter(style.thousands)
        axis.set_ylim(bottom=0)
        if axis.get_lines():
            axis.legend()
        else:
            axis.text(
                0.5, 0.5, "not logged by these runs", transform=axis.transAxes, ha="center", color="0.5"
            )
            axis.set(xticks=[], yticks=[])
    return style.save_figure(figure, out / "scales")
