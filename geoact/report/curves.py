"""Learning curves of runs as a picture: deterministic evaluations with their spread, training returns behind."""

from pathlib import Path

from geoact.errors import InputError
from geoact.runs import Run


def draw_runs(runs: list[Run], out: Path) -> None:
    """One panel per environment, one colour per run."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    if out.suffix not in (".png", ".svg", ".pdf"):
        raise InputError(f"cannot draw into {out.name}: use a name that ends in .png, .svg or .pdf")
    by_env: dict[str, list[Run]] = {}
    for run in runs:
        by_env.setdefault(run.config().env, []).append(run)
    figure, axes = plt.subplots(
        1, len(by_env), figsize=(6.4 * len(by_env), 4.2), squeeze=False, layout="constrained"
    )
    for axis, (env, members) in zip(axes[0], by_env.items()):
        for number, run in enumerate(members):
            config, rows = run.config(), run.metrics()
            color = f"C{number % 10}"
            training = [
                (r["step"], r["charts/episodic_return"]) for r in rows if "charts/episodic_return" in r
            ]
            if training:
                axis.plot(*zip(*training), color=color, alpha=0.35, lw=1)
            tested = [
                (r["step"], r["eval/return_mean"], r["eval/return_std"])
                for r in rows
                if "eval/return_mean" in r
            ]
            if tested:
                step, mean, std = zip(*tested)
                low, high = ([m + s * k for m, s in zip(mean, std)] for k in (-1, 1))
                axis.plot(
                    step, mean, color=color, marker="o", ms=3, label=f"{config.algorithm}, seed {config.seed}"
                )
                axis.fill_between(step, low, high, color=color, alpha=0.15, lw=0)
        axis.set(title=env, xlabel="transitions", ylabel="return")
        axis.xaxis.set_major_formatter(lambda x, _: f"{x / 1000:g}k")
        axis.grid(alpha=0.25)
        if axis.get_legend_handles_labels()[0]:
            axis.legend(frameon=False, title="deterministic evaluation (thin: training)", fontsize="small")
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=150)
    plt.close(figure)
