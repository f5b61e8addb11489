"""Search spaces: which settings of an algorithm are tried, and between what limits; as data, in spaces.toml.

A file of the same form is a user's own space (`geoact tune --space`). Every complaint names the file, the line and
the key.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from geoact.checks import changed, fits
from geoact.config import AlgorithmConfig, defaults, entry, family
from geoact.errors import InputError
from geoact.experiments import toml_file
from geoact.experiments.toml_file import TomlFile


@dataclass(frozen=True)
class Choice:
    """One of a few values."""

    values: tuple[Any, ...]

    def suggest(self, trial: Any, name: str) -> Any:
        """What an Optuna trial takes."""
        return trial.suggest_categorical(name, self.values)


@dataclass(frozen=True)
class Range:
    """A number between two others."""

    low: float
    high: float
    log: bool = False

    def suggest(self, trial: Any, name: str) -> Any:
        """What an Optuna trial takes."""
        if isinstance(self.low, int) and isinstance(self.high, int):
            return trial.suggest_int(name, self.low, self.high, log=self.log)
        return trial.suggest_float(name, self.low, self.high, log=self.log)


Space = dict[str, Choice | Range]
"""The name of a setting, groups with a dot (critic.layer_norm), and what it can be."""


def of(algorithm: str, path: Path | None = None) -> Space:
    """The space of an algorithm: the library's, or the one in a file."""
    with resources.as_file(resources.files("geoact.experiments") / "spaces.toml") as own:
        file = toml_file.load(path or own, "search space")
    for name in file.data:
        try:
            entry(name)
        except InputError as error:
            raise file.refuse((name,), str(error)) from None
    table = next((name for name in (algorithm, *family(algorithm)) if name in file.data), None)
    if table is None or not isinstance(file.data[table], dict) or not file.data[table]:
        raise InputError(
            f"{file.path}: there is nothing to try for {algorithm}: it needs a table [{algorithm}]"
        )
    usual = defaults(algorithm)
    space = {name: _parameter(file, (table, name), usual) for name in file.data[table]}
    for name, parameter in space.items():
        for value in parameter.values if isinstance(parameter, Choice) else (parameter.low, parameter.high):
            try:
                with_values(usual, {name: value})
            except InputError as error:
                raise file.refuse((table, name), str(error)) from None
    return space


def _parameter(file: TomlFile, at: tuple[str, str], settings: AlgorithmConfig) -> Choice | Range:
    """What a table says of a setting, widened so that the default is in it."""
    table, name = at
    given = file.data[table][name]
    try:
        (usual,) = usual_values({name: Choice(())}, settings).values()
    except AttributeError:
        raise file.refuse(at, f"{name} is no setting of {table}") from None
    keys = set(given) if isinstance(given, dict) else set[str]()
    if keys == {"choices"} and isinstance(given["choices"], list) and given["choices"]:
        values = tuple(given["choices"])
        return Choice(values if usual in values else (usual, *values))
    if {"low", "high"} <= keys <= {"low", "high", "log"}:
        low, high, log = given["low"], given["high"], given.get("log", False)
        if (
            fits(low, float)
            and fits(high, float)
            and isinstance(log, bool)
            and low < high
            and (low > 0 or not log)
        ):
            if not isinstance(usual, int | float) or isinstance(usual, bool):
                return Range(low, high, log)
            return Range(min(low, usual), max(high, usual), log)
    raise file.refuse(at, "must have choices = [...], or low and high (log = true: by orders of magnitude)")


def usual_values(space: Space, settings: AlgorithmConfig) -> dict[str, Any]:
    """The values that a configuration has of what a space varies."""
    return {name: functools.reduce(getattr, name.split("."), settings) for name in space}


def with_values(settings: AlgorithmConfig, values: Mapping[str, Any]) -> AlgorithmConfig:
    """The settings with some of them changed."""
    nested: dict[str, Any] = {}
    for name, value in values.items():
        *groups, last = name.split(".")
        table = nested
        for group in groups:
            table = table.setdefault(group, {})
        table[last] = value
    return changed(settings, nested, "this algorithm")
