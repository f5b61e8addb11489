"""The tasks of the paper and their successors: names and sizes, for `geoact envs`.

Plain facts, so that listing them takes no time; a test holds them to the environments themselves.
"""

from typing import NamedTuple


class Task(NamedTuple):
    """An environment's name and sizes."""

    name: str
    obs_dim: int
    action_dim: int
    note: str = ""


GYMNASIUM = (
    Task("Hopper-v4", 11, 3, "paper, table 1"),
    Task("Walker2d-v4", 17, 6, "paper, table 1"),
    Task("HalfCheetah-v4", 17, 6, "paper, table 1"),
    Task("Ant-v4", 27, 8, "paper, table 1"),
    Task("Humanoid-v4", 376, 17, "paper, table 1"),
    Task("Pusher-v5", 23, 7, "instead of the paper's Pusher-v4, which needs MuJoCo 2"),
    Task("Hopper-v5", 11, 3),
    Task("Walker2d-v5", 17, 6),
    Task("HalfCheetah-v5", 17, 6),
    Task("Ant-v5", 105, 8),
    Task("Humanoid-v5", 348, 17),
)

DM_CONTROL = (
    Task("dm_control/fish-upright", 21, 5, "paper, table 2"),
    Task("dm_control/walker-walk", 24, 6, "paper, table 2"),
    Task("dm_control/walker-run", 24, 6, "paper, table 2"),
    Task("dm_control/cheetah-run", 17, 6, "paper, table 2"),
    Task("dm_control/quadruped-walk", 78, 12, "paper, table 2"),
    Task("dm_control/quadruped-run", 78, 12, "paper, table 2"),
)

PAPER = tuple(task for task in GYMNASIUM + DM_CONTROL if "paper" in task.note)
"""The twelve that the paper trains on, Pusher by its runnable version."""
