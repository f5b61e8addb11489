"""Environments that are known without making them: the paper's tasks and their successors, for `geoact envs`.

Plain facts, so that listing them takes no time; a test holds them to the environments themselves.
"""

import re
from typing import NamedTuple


class KnownEnvironment(NamedTuple):
    """An environment's name and sizes."""

    name: str
    obs_dim: int
    action_dim: int
    note: str = ""


GYMNASIUM = (
    KnownEnvironment("Hopper-v4", 11, 3, "paper, table 1"),
    KnownEnvironment("Walker2d-v4", 17, 6, "paper, table 1"),
    KnownEnvironment("HalfCheetah-v4", 17, 6, "paper, table 1"),
    KnownEnvironment("Ant-v4", 27, 8, "paper, table 1"),
    KnownEnvironment("Humanoid-v4", 376, 17, "paper, table 1"),
    KnownEnvironment("Pusher-v5", 23, 7, "instead of the paper's Pusher-v4, which needs MuJoCo 2"),
    KnownEnvironment("Hopper-v5", 11, 3),
    KnownEnvironment("Walker2d-v5", 17, 6),
    KnownEnvironment("HalfCheetah-v5", 17, 6),
    KnownEnvironment("Ant-v5", 105, 8),
    KnownEnvironment("Humanoid-v5", 348, 17),
)

DM_CONTROL = (
    KnownEnvironment("dm_control/fish-upright", 21, 5, "paper, table 2"),
    KnownEnvironment("dm_control/walker-walk", 24, 6, "paper, table 2"),
    KnownEnvironment("dm_control/walker-run", 24, 6, "paper, table 2"),
    KnownEnvironment("dm_control/cheetah-run", 17, 6, "paper, table 2"),
    KnownEnvironment("dm_control/quadruped-walk", 78, 12, "paper, table 2"),
    KnownEnvironment("dm_control/quadruped-run", 78, 12, "paper, table 2"),
)

PAPER = tuple(known for known in GYMNASIUM + DM_CONTROL if "paper" in known.note)
"""The twelve that the paper trains on, Pusher by its runnable version."""

_DM_CONTROL_NAME = re.compile(r"(dm_control/)?(?P<task>[a-z_]+-[a-z0-9_]+?)(-v0)?")


def dm_control_task(env: str) -> str | None:
    """`walker-run` of `walker-run`, `dm_control/walker-run` and `dm_control/walker-run-v0`; None of other names."""
    found = _DM_CONTROL_NAME.fullmatch(env)
    return found["task"] if found else None
