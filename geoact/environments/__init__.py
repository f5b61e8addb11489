"""Environments: from a name to several that are stepped together and whose episodes are known.

tasks.py        what is known without making one: the paper's tasks, and one name for each
making.py       a name becomes one environment
checks.py       what an environment must be and give; everything else is refused by name
description.py  what an environment given in Python is, as plain data, and whether it fits a policy
vector.py       `Environments`: stepped together, every episode from a seed of ours
workers.py      each environment in its own process
pool.py         EnvPool's simulators
"""

from geoact.environments.checks import Env, checked, flatten_observation, require_finite, several
from geoact.environments.description import EnvDescription, compare_spaces, describe
from geoact.environments.making import EnvFactory, available, factory, make, registered
from geoact.environments.vector import Environments, Step, episode_seed

__all__ = [
    "Env",
    "EnvDescription",
    "EnvFactory",
    "Environments",
    "Step",
    "available",
    "checked",
    "compare_spaces",
    "describe",
    "episode_seed",
    "factory",
    "flatten_observation",
    "make",
    "registered",
    "require_finite",
    "several",
]
