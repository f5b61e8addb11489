"""How long a policy's actions are: the paper's have norm r in every state, with slack anything up to r.

A task that wants small actions now and then (Pusher, standing still) cannot be done with actions of one length, except
by turning them into coordinates that are clipped. Lengths are in units of the box [-1, 1]^d, whose corners are
sqrt(d) from its middle: before clipping, and as executed.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np

from geoact.analysis.exploring import explore
from geoact.errors import InputError
from geoact.report import style
from geoact.report.tables import Value, write_table
from geoact.runtime import Policy, load


def lengths(actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Before clipping and as executed.  # [states, action_dim] -> 2 x [states]"""
    return np.linalg.norm(actions, axis=1), np.linalg.norm(np.clip(actions, -1.0, 1.0), axis=1)


def run(out: Path, runs: list[Path], seed: int = 0, episodes: int = 5) -> list[Path]:
    """Play each policy, measure, and write the table and the figure."""
    if not runs:
        raise InputError("give the runs or policies whose actions should be measured")
    rows: list[list[Value]] = []
    panels: list[tuple[Policy, np.ndarray]] = []
    for path in runs:
        policy = load(path)
        played = explore(policy, episodes, seed)
        actions = policy.raw(np.concatenate([episode.obs for episode in played]))
        wanted, executed = lengths(actions)
        rows.append(
            [
                path.name,
                policy.spec.algorithm,
                policy.spec.env,
                actions.shape[1],
                float(wanted.mean()),
                *(float(np.quantile(wanted, share)) for share in (0.05, 0.5, 0.95)),
                float(executed.mean()),
                float(np.mean(np.abs(actions) > 1.0)),
                float(sum(episode.rewards.sum() for episode in played)) / episodes,
            ]
        )
        panels.append((policy, wanted))
    columns = ["policy", "algorithm", "environment", "d", "mean length", "5 %", "median", "95 %"]
    columns += ["mean length executed", "clipped coordinates", "return"]
    files = write_table(
        out / "length",
        "How long actions are",
        columns,
        rows,
        f"Deterministic actions in the states of {episodes} exploring episodes, seed {seed}; lengths in units of the "
        "box [-1, 1]^d, before clipping (mean and quantiles over states) and as executed.",
        dict.fromkeys(columns[4:10], ".2f") | {"return": ",.0f"},
    )
    with style.drawing():
        return files + _figure(out, panels)


def _figure(out: Path, panels: list[tuple[Policy, np.ndarray]]) -> list[Path]:
    figure = style.new_figure(3.0 * len(panels) + 0.4, 3.0)
    axes: Any = figure.subplots(1, len(panels), squeeze=False)
    for axis, (policy, wanted) in zip(axes[0], panels):
        corner = math.sqrt(len(policy.spec.action_low))
        bins = np.linspace(0.0, 1.05 * max(corner, float(wanted.max())), 61)
        color = style.METHOD_COLORS.get(policy.spec.algorithm, style.COLORS[6])
        axis.hist(wanted, bins, weights=np.full(len(wanted), 1.0 / len(wanted)), color=color, alpha=0.75)
        axis.axvline(corner, color="k", ls="--", lw=1)
        axis.set(
            title=f"{policy.spec.algorithm}, {policy.spec.env}",
            xlabel="length before clipping (dashed: a corner)",
        )
    axes[0][0].set_ylabel("share of states")
    return style.save_figure(figure, out / "length")
