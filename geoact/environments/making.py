"""From an environment's name to one environment that can be controlled.

A name is a Gymnasium id (`HalfCheetah-v5`), a DMControl task (`dm_control/walker-run`, or `walker-run` for short) or
`module:Id`, whose module is imported first. Only a name that the user gave may import a module: one that was read
from a shared file is not trusted.
"""

import contextlib
import functools
import importlib
import os
import sys
import warnings
from collections.abc import Callable, Generator
from typing import Any

import gymnasium as gym

from geoact.config import unknown
from geoact.environments.checks import Env, checked
from geoact.environments.tasks import dm_control_task
from geoact.errors import InputError

EnvFactory = Callable[[], Env]

SUCCESSORS = {"Pusher-v4": "its object is heavier"}
"""Environments that cannot be made any more, and what to know about the next version."""


def factory(env: str, trust: bool = True) -> EnvFactory:
    """A function that makes this environment; it can be sent to another process.

    `trust`: whether the name may import a module. False for a name out of a file that somebody else may have
    written, such as a shared policy.json: then it is refused, here and at once, unless the module is loaded already.
    """
    if not trust:
        _refuse_import(env)
    return functools.partial(make, env)


def _refuse_import(env: str) -> None:
    module, colon, _ = env.partition(":")
    if colon and module not in sys.modules:
        raise InputError(
            f"the file names the environment {env!r}, and making it would run the module {module!r}: if you trust it, "
            "say so with --trust-env, or name an environment yourself with --env (in Python: import the module first, "
            "or give env=)"
        )


def make(env: str, render_mode: str | None = None) -> Env:
    """One environment by name, its observation a vector, its action a bounded box; anything else is explained."""
    made = _make(env, render_mode)
    try:
        return checked(made, env)
    except InputError:
        made.close()
        raise


def registered(env: str) -> str:
    """The id in Gymnasium's registry that a name means; imports what the name says it needs, and nothing else."""
    module, colon, name = env.partition(":")
    if colon:
        _import(module, env)
        env = name
    task = dm_control_task(env)
    if env not in gym.registry and task is not None:
        _register_dm_control()
        env = f"dm_control/{task}-v0"
    if env not in gym.registry:
        known = [
            name.removeprefix("dm_control/").removesuffix("-v0") if task else name for name in gym.registry
        ]
        raise InputError(unknown("environment", task or env, known))
    return env


def available() -> list[str]:
    """The names of all environments that Gymnasium and DMControl register here, the newest versions only."""
    _register_dm_control()
    newest: dict[str, int] = {}
    for spec in gym.registry.values():
        stem = spec.id.rpartition("-v")[0]
        newest[stem] = max(newest.get(stem, 0), spec.version or 0)
    kept = [s for s in gym.registry.values() if (s.version or 0) == newest[s.id.rpartition("-v")[0]]]
    return sorted(s.id for s in kept if s.namespace in (None, "dm_control"))


@contextlib.contextmanager
def headless() -> Generator[None]:
    """MuJoCo, if it is imported in this block, looks for no display, unless MUJOCO_GL says which to use.

    MuJoCo and DMControl read the variable once, when they are imported, so it need not stay set.
    """
    if "MUJOCO_GL" in os.environ:
        yield
        return
    os.environ["MUJOCO_GL"] = "disabled"
    try:
        yield
    finally:
        os.environ.pop("MUJOCO_GL", None)


@contextlib.contextmanager
def _importable_from_here() -> Generator[None]:
    """Modules of the current folder can be imported: people expect it, and an installed command does not look there."""
    here = os.getcwd()
    if "" in sys.path or here in sys.path:
        yield
        return
    sys.path.append(here)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):  # the module may have changed the path itself
            sys.path.remove(here)


def _import(module: str, env: str) -> None:
    if "" in module.split("."):
        raise InputError(
            f"{env!r} is not the name of an environment: expected an id (HalfCheetah-v5), a DMControl task "
            "(walker-run) or module:Id (my_package:MyEnv-v0)"
        )
    try:
        with _importable_from_here():
            importlib.import_module(module)
    except (Exception, SystemExit) as error:  # it is the user's code, and anything may be wrong with it
        kind = "" if isinstance(error, ImportError) else f"{type(error).__name__}: "
        raise InputError(f"cannot import {module!r}, which {env!r} names: {kind}{error}") from None


def _register_dm_control() -> None:
    """DMControl's tasks become Gymnasium ids (through Shimmy), which takes a second or two to import."""
    with headless():
        gym.register_envs(importlib.import_module("shimmy"))


def _make(env: str, render_mode: str | None) -> Env:
    with contextlib.ExitStack() as scope:
        if render_mode is None:
            scope.enter_context(headless())
        env_id = registered(env)
        if env_id in SUCCESSORS:
            successor = env_id.removesuffix("4") + "5"
            raise InputError(
                f"{env_id} needs MuJoCo 2, which this geoact does not run on: use {successor} "
                f"({SUCCESSORS[env_id]}, so the two are not to be compared number by number)"
            )
        _quiet_mujoco()
        if ":" in env:
            scope.enter_context(
                _importable_from_here()
            )  # what is registered may lie in another module than it is
        # An environment of the user's own need not know about rendering.
        rendering: dict[str, Any] = {} if render_mode is None else {"render_mode": render_mode}
        # The old version is what the user named, for comparison with published numbers.
        scope.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("ignore", ".*is out of date", DeprecationWarning)
        try:
            return gym.make(env_id, disable_env_checker=True, **rendering)
        except (
            Exception
        ) as error:  # whatever a third-party constructor raises, the user named this environment
            raise InputError(f"environment {env!r} cannot be made: {error}") from None


def _quiet_mujoco() -> None:
    """MuJoCo prints a deprecation of everybody's model files at every load; other warnings become Python's.

    Set each time, because importing dm_control puts its own handler in place.
    """
    try:
        mujoco: Any = importlib.import_module("mujoco")
    except ImportError:  # environments of the user's own need no MuJoCo
        return

    def warn(message: str) -> None:
        if "settotalmass" not in message:
            warnings.warn(f"MuJoCo: {message}", RuntimeWarning, stacklevel=2)

    mujoco.set_mju_user_warning(warn)
