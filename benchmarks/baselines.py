"""Our baselines beside the peers: a table and curves from whatever runs are there.

    python -m benchmarks.baselines collect sweeps/baselines   # finished runs of geoact sweep baselines -> ours/*.json
    python -m benchmarks.baselines                            # ours/, peers/ -> comparison.md, .csv, .png, .svg

A run has two scores. Training: the mean return over the last tenth of training, the quantity of the paper's tables;
ours over log points, the peers' over episodes. Evaluation: the mean of its last three evaluations (ten deterministic
episodes each), which is steadier than the last one alone. Ours is called as good where its mean evaluation over seeds
is not below the lowest of the peers' seeds; with fewer than two seeds on a side nothing is said.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from geoact.experiments.catalogue import EXPERIMENTS
from geoact.report.style import COLORS, drawing, new_figure, save_figure
from geoact.report.tables import Value, write_table
from geoact.storage.runs import find_runs

RESULTS = Path(__file__).parents[1] / "results" / "baselines"
NAMES = {"geoact": "geoact", "sb3": "Stable-Baselines3", "sbx": "SBX"}
ALGORITHMS = tuple(EXPERIMENTS["baselines"].variants)
ENVIRONMENTS = tuple(task.env for task in EXPERIMENTS["baselines"].tasks)


def collect(runs_dir: Path, out: Path) -> None:
    """Write one small file for each finished run."""
    out.mkdir(exist_ok=True)
    for run in find_runs(runs_dir):
        if run.status()["state"] != "finished":
            continue
        config, rows = run.config(), run.metrics()
        run_data: dict[str, Any] = {
            "library": "geoact",
            "algorithm": config.algorithm,
            "env": config.env,
            "seed": config.seed,
            "timesteps": rows[-1]["step"],
            "environments": config.num_envs,
            "gradient_updates": rows[-1]["updates"],
            "settings": config.to_json()["settings"],
            "versions": json.loads((run.path / "run.json").read_text())["libraries"],
            "seconds": round(rows[-1]["time/elapsed"], 1),
            "evaluations": [
                [r["step"], round(r["eval/return_mean"], 1), round(r["eval/return_std"], 1)]
                for r in rows
                if "eval/return_mean" in r
            ],
            "training": [
                [r["step"], round(r["charts/episodic_return"], 1)]
                for r in rows
                if "charts/episodic_return" in r
            ],
        }
        path = out / f"geoact__{config.algorithm}__{config.env}__s{config.seed}.json"
        path.write_text(json.dumps(run_data, separators=(",", ":")) + "\n")
        print(path.name, run_data["evaluations"][-1])


def evaluation(run: dict[str, Any]) -> float:
    """Mean of the last three evaluations."""
    return float(np.mean([mean for _, mean, _ in run["evaluations"][-3:]]))


def training_return(run: dict[str, Any]) -> float:
    """Mean return of the episodes, or of the log points, in the last tenth of training."""
    points = run.get("episodes") or run["training"]
    return float(np.mean([value for step, value in points if step > 0.9 * run["timesteps"]]))


def verdict(ours: list[float], peers: list[float]) -> str:
    if len(ours) < 2 or len(peers) < 2:
        return "too few seeds"
    if np.mean(ours) > max(peers):
        return "above the peers' spread"
    return "inside the peers' spread" if np.mean(ours) >= min(peers) else "below the peers' spread"


def spread(scores: list[float]) -> list[Value]:
    return [float(np.mean(scores)), min(scores), max(scores)]


def budget(run: dict[str, Any]) -> str:
    """Both counts: PPO is often counted in transitions where the others are counted in steps of the loop."""
    transitions, environments = run["timesteps"], run["environments"]
    return f"{transitions:,} = {transitions // environments:,} x {environments}"


def compare(out: Path = RESULTS) -> None:
    paths = sorted(path for folder in ("ours", "peers") for path in (RESULTS / folder).glob("*.json"))
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for path in paths:
        run = json.loads(path.read_text())
        groups.setdefault((run["algorithm"], run["env"], run["library"]), []).append(run)
    rows: list[list[Value]] = []
    for (algorithm, env, library), runs in sorted(groups.items()):
        scores = [evaluation(run) for run in runs]
        peers = [
            evaluation(r)
            for k, v in groups.items()
            if k[:2] == (algorithm, env) and k[2] != "geoact"
            for r in v
        ]
        rows.append(
            [
                algorithm.upper(),
                env,
                NAMES[library],
                ", ".join(str(run["seed"]) for run in runs),
                *spread([training_return(run) for run in runs]),
                *spread(scores),
                budget(runs[0]),
                verdict(scores, peers) if library == "geoact" else "",
            ]
        )
    numbers = [
        f"{kind}{part}" for kind in ("training", "evaluation") for part in ("", ", lowest", ", highest")
    ]
    columns = ["algorithm", "environment", "library", "seeds", *numbers]
    write_table(
        out / "comparison",
        "Our baselines and their peers",
        [*columns, "transitions = vector steps x environments", "ours, by evaluation, is"],
        rows,
        note="Training: mean return in the last tenth of training, the quantity of the paper's tables (ours over log "
        "points, the peers' over episodes). Evaluation: mean of the last three evaluations, ten deterministic "
        "episodes each. Means, lowest and highest are over seeds.",
        formats=dict.fromkeys(numbers, ",.0f"),
    )
    with drawing():
        figure = new_figure(10, 5.5)
        axes = figure.subplots(len(ENVIRONMENTS), len(ALGORITHMS), squeeze=False)
        for i, env in enumerate(ENVIRONMENTS):
            for j, algorithm in enumerate(ALGORITHMS):
                axis = axes[i][j]
                axis.set_title(f"{algorithm.upper()}, {env}")
                for color, library in zip(COLORS, NAMES):
                    for k, run in enumerate(groups.get((algorithm, env, library), [])):
                        steps, means, _ = zip(*run["evaluations"])
                        label = NAMES[library] if k == 0 else None
                        axis.plot(np.asarray(steps) / 1000, means, color=color, label=label)
                if i == len(ENVIRONMENTS) - 1:
                    axis.set_xlabel("transitions (thousands)")
                if j == 0:
                    axis.set_ylabel("evaluation return")
                if axis.lines:
                    axis.legend()
        save_figure(figure, out / "comparison")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("command", nargs="?", choices=("collect",))
    parser.add_argument("runs", nargs="?", type=Path)
    given = parser.parse_args()
    if given.command == "collect":
        if given.runs is None:
            parser.error("collect needs the directory of the sweep: sweeps/baselines")
        collect(given.runs, RESULTS / "ours")
    else:
        compare()


if __name__ == "__main__":
    main()
