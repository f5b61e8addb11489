"""A run's configuration as a file: TOML to write by hand, or the run.json of a run that there is.

    env = "HalfCheetah-v5"
    algorithm = "gac"
    timesteps = 240_000           # the options of a run, by the names of their flags
    seed = 0

    [settings]                    # the algorithm's
    radius = 2.5

    [settings.critic]             # a group of settings is a table of its own
    layer_norm = true

What is left out has its default. Every complaint names the file, the line and the key. A setting that is open
(automatic) stands as a comment in what `write` gives, since TOML has no word for nothing; where that is not the
default it is written as "none".
"""

import dataclasses
import json
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from geoact.checks import choices, fits, spell
from geoact.config import (
    DEFAULT_ALGORITHM,
    AlgorithmConfig,
    RunConfig,
    RunOptions,
    defaults,
    option_values,
    unknown,
)
from geoact.errors import InputError
from geoact.experiments import toml_file
from geoact.storage import files

T = TypeVar("T")
Refuse = Callable[[tuple[str, ...], str], InputError]


@dataclass(frozen=True)
class RunFile:
    """What a file says about a run."""

    env: str | None
    """Environment id, where the file names one."""
    algorithm: str
    options: RunOptions
    settings: AlgorithmConfig
    resolved: bool
    """Whether its automatic settings are those that a run worked out for its environment (run.json)."""

    def config(self) -> RunConfig:
        """The run, complete."""
        if self.env is None:
            raise InputError("the configuration names no environment: add env")
        return RunConfig(
            env=self.env, algorithm=self.algorithm, settings=self.settings, **option_values(self.options)
        )


def read(path: Path) -> RunFile:
    """A TOML file, a run.json, or the directory of a run."""
    if path.is_dir():
        path = path / "run.json"
    try:
        return _read_json(path) if path.suffix == ".json" else _read_toml(path)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(f"cannot read the configuration {path}: {reason}") from None


def _read_json(path: Path) -> RunFile:
    data = files.read_json(path)
    config = data.get("config", data)
    try:
        if not isinstance(config, dict):
            raise InputError("expected the configuration of a run")
        run = RunConfig.from_json(config)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    if run.env_given:
        raise InputError(
            f"{path}: that run was trained on {run.env_given}, which cannot be made from its name: train in Python, or "
            "start from a TOML file (geoact train ENV --print-config)"
        )
    return RunFile(run.env, run.algorithm, RunOptions(**option_values(run)), run.settings, resolved=True)


def _read_toml(path: Path) -> RunFile:
    file = toml_file.load(path, "configuration")
    data, refuse = file.data, file.refuse
    names = [field.name for field in dataclasses.fields(RunOptions)]
    for key in data:
        if key not in ("env", "algorithm", "settings", *names):
            raise refuse((key,), unknown("key", key, ["env", "algorithm", "settings", *names]))
    env, algorithm = data.get("env"), data.get("algorithm", DEFAULT_ALGORITHM)
    for key, value in (("env", env), ("algorithm", algorithm)):
        if value is not None and not isinstance(value, str):
            raise refuse((key,), f"must be a text, got {value!r}")
    try:
        settings = defaults(algorithm)
    except InputError as error:
        raise refuse(("algorithm",), str(error)) from None
    given = data.get("settings", {})
    if not isinstance(given, dict):
        raise refuse(("settings",), "must be a table, [settings]")
    options = changed(RunOptions(), {key: data[key] for key in names if key in data}, (), refuse)
    return RunFile(env, algorithm, options, changed(settings, given, ("settings",), refuse), resolved=False)


def changed(record: T, given: Mapping[str, Any], at: tuple[str, ...], refuse: Refuse) -> T:
    """The record with some of its fields changed, groups of them by tables within the table."""
    hints = typing.get_type_hints(type(record))
    known = [field.name for field in choices(record)]
    values: dict[str, Any] = {}
    for key, value in given.items():
        keys = (*at, key)
        if key not in known:
            raise refuse(keys, unknown("key", key, known))
        before = getattr(record, key)
        if dataclasses.is_dataclass(before):
            if not isinstance(value, dict):
                raise refuse(keys, f"must be a table, [{'.'.join(keys)}]")
            values[key] = changed(before, value, keys, refuse)
            continue
        values[key] = _converted(value, hints[key])
        if not fits(values[key], hints[key]):
            raise refuse(keys, f"must be {spell(hints[key])}, got {value!r}")
    try:
        return dataclasses.replace(record, **values)  # type: ignore[type-var]
    except InputError as error:
        raise refuse(at or tuple(list(given)[:1]), str(error)) from None


def _converted(value: Any, hint: Any) -> Any:
    """TOML's value as the one that the command line would give: 2 is 2.0 where a number is meant, a list a tuple."""
    members = typing.get_args(hint) or (hint,)
    if isinstance(value, list):
        return tuple(value)
    if isinstance(value, int) and not isinstance(value, bool) and float in members and int not in members:
        return float(value)
    return None if value == "none" and type(None) in members and str not in members else value


def write(config: RunConfig) -> str:
    """The complete configuration as TOML, which `read` makes the same configuration of."""
    lines = [f"env = {_toml(config.env)}", f"algorithm = {_toml(config.algorithm)}"]
    lines += _lines(config, RunOptions(), [field.name for field in dataclasses.fields(RunOptions)])
    return "\n".join([*lines, *_table(config.settings, defaults(config.algorithm), "settings"), ""])


def _table(record: Any, usual: Any, name: str) -> list[str]:
    fields = [field.name for field in choices(record)]
    groups = [field for field in fields if dataclasses.is_dataclass(getattr(record, field))]
    lines = ["", f"[{name}]", *_lines(record, usual, [field for field in fields if field not in groups])]
    for group in groups:
        lines += _table(getattr(record, group), getattr(usual, group), f"{name}.{group}")
    return lines


def _lines(record: Any, usual: Any, names: list[str]) -> list[str]:
    lines = []
    for name in names:
        value = getattr(record, name)
        open_by_default = value is None and getattr(usual, name) is None
        lines.append(f"# {name}: automatic" if open_by_default else f"{name} = {_toml(value)}")
    return lines


def _toml(value: Any) -> str:
    if value is None:
        return '"none"'
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value) if isinstance(value, bool) else repr(value)
