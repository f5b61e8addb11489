"""Action coordinates without gradient: tanh that is flat, and coordinates that are clipped.

The paper counts, for SAC near convergence, the actions before tanh at which `tanh'(x) < 0.05` (46.4 % on
HalfCheetah) and calls their gradient lost. GAC has no tanh, but its actions have norm r and are clipped to the
box: where a coordinate is clipped, the gradient through that coordinate is exactly zero. So the two are counted
side by side, each by its own definition, and both by a common one: coordinates executed at more than 97.47 % of
the limit, which is where `tanh'` is 0.05. A bang-bang policy may well be the right one; a high share is not by
itself a fault.
"""

from pathlib import Path
from typing import Any

import numpy as np

from geoact.analysis.exploring import explore
from geoact.errors import InputError
from geoact.experiments.paper_numbers import paper_numbers
from geoact.report import style
from geoact.report.tables import Value, write_table
from geoact.runtime import Policy, load

FLAT = 0.05  # of tanh'
LIMIT = float(np.sqrt(1.0 - FLAT))  # |tanh(x)| where tanh'(x) = FLAT


def without_gradient(policy: Policy, values: np.ndarray) -> np.ndarray:
    """Which coordinates give (next to) no gradient, by the policy's own definition."""
    return 1.0 - np.tanh(values) ** 2 < FLAT if policy.squashes else np.abs(values) > 1.0


def at_limit(policy: Policy, values: np.ndarray) -> np.ndarray:
    """Which coordinates are executed within 2.53 % of the limit, whatever the policy."""
    return np.abs(np.tanh(values) if policy.squashes else values) >= LIMIT


def run(out: Path, runs: list[Path], seed: int = 0, episodes: int = 5) -> list[Path]:
    """Play each policy, count, and write the table and the figure."""
    if not runs:
        raise InputError("give the runs or policies whose actions should be looked at")
    rows: list[list[Value]] = []
    panels: list[tuple[str, Policy, np.ndarray]] = []
    for path in runs:
        policy = load(path)
        played = explore(policy, episodes, seed)
        obs = np.concatenate([episode.obs for episode in played])
        rng = np.random.default_rng(seed)
        exploring = policy.unsquashed(obs, policy.noise(rng, len(obs)))
        deterministic = policy.unsquashed(obs)
        rows.append(
            [
                path.name,
                policy.spec.algorithm,
                policy.spec.env,
                "tanh' < 0.05" if policy.squashes else "clipped",
                *(float(without_gradient(policy, values).mean()) for values in (exploring, deterministic)),
                *(float(at_limit(policy, values).mean()) for values in (exploring, deterministic)),
                float(sum(episode.rewards.sum() for episode in played)) / episodes,
            ]
        )
        panels.append((f"{policy.spec.algorithm}, {policy.spec.env}", policy, exploring))
    columns = ["policy", "algorithm", "environment", "criterion"]
    columns += ["without gradient, exploring", "without gradient, deterministic"]
    columns += ["at the limit, exploring", "at the limit, deterministic", "return"]
    published = paper_numbers()["figureA2_gradient_saturation"]
    contradictions = paper_numbers()["contradictions"]["figureA2_gradient_saturation"]
    files = write_table(
        out / "saturation",
        "Coordinates without gradient",
        columns,
        rows,
        f"Shares of action coordinates over the states of {episodes} exploring episodes, seed {seed}. Without "
        "gradient: by the policy's own criterion (tanh is flat; the coordinate is clipped). At the limit: executed "
        f"at more than {100 * LIMIT:.2f} % of the limit, the same for all. The paper: "
        f"{100 * published['saturated_fraction']:.1f} % without gradient for SAC on "
        f"{published['environment']} near convergence."
        + "".join(f" It differs from itself: {text}." for text in contradictions),
        dict.fromkeys(columns[4:8], ".3f") | {"return": ",.0f"},
    )
    with style.drawing():
        return files + _figure(out, panels)


def _figure(out: Path, panels: list[tuple[str, Policy, np.ndarray]]) -> list[Path]:
    figure = style.new_figure(3.4 * len(panels) + 0.4, 3.2)
    axes: Any = figure.subplots(1, len(panels), squeeze=False)
    for axis, (title, policy, values) in zip(axes[0], panels):
        edge = float(np.arctanh(LIMIT)) if policy.squashes else 1.0
        reach = max(1.5 * edge, float(np.quantile(np.abs(values), 0.995)))
        bins = np.linspace(-reach, reach, 61)
        color = style.METHOD_COLORS.get(policy.spec.algorithm, style.COLORS[6])
        axis.hist(np.clip(values, -reach, reach).ravel(), bins, density=True, color=color, alpha=0.75)
        for side in (-edge, edge):
            axis.axvline(side, color="k", ls="--", lw=1)
        share = float(without_gradient(policy, values).mean())
        reason = r"$\tanh'(x) < 0.05$" if policy.squashes else "clipped"
        axis.set(
            title=f"{title}\n{100 * share:.1f} % {reason}",
            xlabel="before tanh" if policy.squashes else "before clipping",
        )
    axes[0][0].set_ylabel("density over coordinates and states")
    return style.save_figure(figure, out / "saturation")
