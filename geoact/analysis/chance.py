"""What random actions earn on the paper's tasks: the zero of normalised scores.

Actions are drawn evenly from the box, as in the warm-up of a training. The package has the table that this study
writes (`experiments/chance.csv`), so that reports can be made without a simulator.
"""

from pathlib import Path

import numpy as np

from geoact import environments
from geoact.environments.checks import is_box, reset, step
from geoact.experiments.catalogue import DMCONTROL, MUJOCO, ExperimentTask
from geoact.report.tables import Value, write_table


def returns(env_name: str, episodes: int, seed: int) -> np.ndarray:
    """Returns of episodes of random actions, the i-th from seed + i.  # [episodes]"""
    env = environments.factory(env_name)()
    box = env.action_space
    assert is_box(box)  # others are refused when an environment is made
    played = np.zeros(episodes)
    try:
        for episode in range(episodes):
            rng = np.random.default_rng([seed + episode, 1])
            reset(env, seed + episode, env_name)
            over = False
            while not over:
                _, reward, terminated, truncated = step(env, rng.uniform(box.low, box.high), env_name)
                played[episode] += reward
                over = terminated or truncated
    finally:
        env.close()
    return played


def run(
    out: Path, seed: int = 0, tasks: tuple[ExperimentTask, ...] = MUJOCO + DMCONTROL, episodes: int = 100
) -> list[Path]:
    """Play on each task and write the table."""
    rows: list[list[Value]] = []
    for task in tasks:
        found = returns(task.env, episodes, seed)
        rows.append([task.name, task.env, float(found.mean()), float(found.std(ddof=1)), episodes])
    return write_table(
        out / "chance",
        "What random actions earn",
        ["task", "environment", "mean return", "std", "episodes"],
        rows,
        f"Actions drawn evenly from the box; episodes from the seeds {seed} to {seed + episodes - 1}.",
        {"mean return": ",.1f", "std": ",.1f"},
    )
