"""`geoact envs`."""

from dataclasses import dataclass
from typing import Annotated

from tyro.conf import Positional, arg


@dataclass(frozen=True)
class Envs:
    """List environments with the sizes of their observations and actions."""

    names: Annotated[tuple[str, ...], Positional, arg(metavar="NAME ...", help_behavior_hint="")] = ()
    """Environments to look at, also your own (my_package:MyEnv-v0). Without names: the paper's tasks and their
    newer versions."""
    all: bool = False
    """Everything that Gymnasium and DMControl offer here with continuous actions; takes a minute."""


def run(options: Envs) -> int:
    """Print one line per environment."""
    from geoact.environments import tasks
    from geoact.errors import InputError

    if not options.names and not options.all:
        for task in tasks.GYMNASIUM + tasks.DM_CONTROL:
            print(_line(*task))
        print(
            "\nAny other Gymnasium environment with continuous actions works too: by its id, or as module:Id."
        )
        return 0
    from geoact import environments

    for name in options.names or environments.available():
        try:
            env = environments.make(name)
        except InputError:
            if options.names:
                raise
            continue  # discrete actions, images, or a package that is not installed
        assert env.observation_space.shape is not None and env.action_space.shape is not None
        print(_line(name, env.observation_space.shape[0], env.action_space.shape[0]), flush=True)
        env.close()
    return 0


def _line(name: str, obs_dim: int, action_dim: int, note: str = "") -> str:
    return f"{name:<28} {obs_dim:>4} observations  {action_dim:>3} actions  {note}".rstrip()
