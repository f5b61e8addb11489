"""A user's own sweep: a TOML file of the same shape as the experiments in catalogue.py.

    name = "radius"
    title = "Which radius suits the cheetah?"     # optional
    seeds = [0, 1, 2]
    num_envs = 8                                  # optional
    evaluations = 20                              # optional, as are eval_episodes and checkpoint_minutes

    [tasks]                                       # environment id = vector steps
    "HalfCheetah-v5" = 30_000

    [variants.wide]                               # label; then the algorithm and its settings
    algorithm = "gac"
    radius = 3.5

Every complaint names the file, the line and the key.
"""

import re
import tomllib
from pathlib import Path
from typing import Any

from geoact.errors import InputError
from geoact.experiments.catalogue import Experiment, Task, Variant, fits, spell

_FIELDS: dict[str, Any] = {
    "name": str,
    "title": str,
    "seeds": list,
    "num_envs": int,
    "evaluations": int,
    "eval_episodes": int,
    "checkpoint_minutes": float,
    "tasks": dict,
    "variants": dict,
}


def read(path: Path) -> Experiment:
    """The experiment that a TOML file describes."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {error}") from None
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path} is not TOML: {error}{_key_near(text, str(error))}") from None

    def refuse(keys: tuple[str, ...], message: str) -> InputError:
        line = line_of(text, keys)
        where = f"line {line}, " if line else ""
        return InputError(f"{path}: {where}{'.'.join(keys)}: {message}")

    for key, value in data.items():
        if key not in _FIELDS:
            raise refuse((key,), f"unknown key; expected {', '.join(_FIELDS)}")
        if not fits(value, _FIELDS[key]):
            words = {list: "a list", dict: "a table"}
            raise refuse((key,), f"must be {words.get(_FIELDS[key]) or spell(_FIELDS[key])}, got {value!r}")
    for key in ("tasks", "variants", "seeds"):
        if not data.get(key):
            raise InputError(f"{path}: {key}: missing or empty; a sweep needs tasks, variants and seeds")
    for key in ("num_envs", "evaluations", "eval_episodes", "checkpoint_minutes"):
        if data.get(key, 1) <= 0:
            raise refuse((key,), f"must be greater than 0, got {data[key]}")
    seeds = data["seeds"]
    if not all(fits(seed, int) and seed >= 0 for seed in seeds) or len(set(seeds)) != len(seeds):
        raise refuse(("seeds",), f"must be different whole numbers of 0 or more, got {seeds}")
    tasks = []
    for env, steps in data["tasks"].items():
        if not fits(steps, int) or steps < 1:
            raise refuse(("tasks", env), f"must be a number of vector steps, got {steps!r}")
        tasks.append(Task(env, steps))
    variants = {label: _variant(label, given, refuse) for label, given in data["variants"].items()}
    name = data.get("name", path.stem)
    if not re.fullmatch(r"[\w.-]+", name):
        raise refuse(("name",), f"must be made of letters, digits, '.', '_' and '-', got {name!r}")
    optional = {
        key: data[key]
        for key in ("num_envs", "evaluations", "eval_episodes", "checkpoint_minutes")
        if key in data
    }
    return Experiment(name, data.get("title", name), tuple(tasks), variants, tuple(seeds), **optional)


def _variant(label: str, given: Any, refuse: Any) -> Variant:
    if not isinstance(given, dict) or not isinstance(given.get("algorithm"), str):
        raise refuse(("variants", label), 'must be a table with an algorithm, such as algorithm = "gac"')
    settings = {key: value for key, value in given.items() if key != "algorithm"}
    try:
        Variant(given["algorithm"]).config()
    except InputError as error:
        raise refuse(("variants", label, "algorithm"), str(error)) from None
    for key, value in settings.items():
        try:
            Variant(given["algorithm"], {key: value}).config()
        except InputError as error:
            if "unknown" in str(error) or "must" in str(error):
                raise refuse(("variants", label, key), str(error)) from None
            # A value that is only refused beside the others' defaults is judged with them, below.
    variant = Variant(given["algorithm"], settings)
    try:
        variant.config()
    except InputError as error:
        raise refuse(("variants", label), str(error)) from None
    return variant


def line_of(text: str, keys: tuple[str, ...]) -> int | None:
    """The line where a key stands: tomllib does not tell, so headers and assignments are followed by eye."""
    table: tuple[str, ...] = ()
    best: int | None = None
    for number, line in enumerate(text.splitlines(), 1):
        header = re.match(r"\s*\[([^\[\]]+)\]", line)
        if header:
            table = _keys(header[1])
            here = table
        else:
            assignment = re.match(
                r"""\s*((?:"[^"]*"|'[^']*'|[\w.-]+)(?:\s*\.\s*(?:"[^"]*"|'[^']*'|[\w-]+))*)\s*=""", line
            )
            if not assignment:
                continue
            here = table + _keys(assignment[1])
        if here == keys:
            return number
        if best is None and here[: len(keys)] == keys:
            best = number
    return best


def _keys(text: str) -> tuple[str, ...]:
    parts = re.findall(r""""([^"]*)"|'([^']*)'|([\w-]+)""", text)
    return tuple("".join(part) for part in parts)


def _key_near(text: str, message: str) -> str:
    """The key on the line that a syntax error names, for the eye."""
    found = re.search(r"line (\d+)", message)
    lines = text.splitlines()
    number = int(found[1]) if found else len(lines)
    for line in reversed(lines[:number]):
        key = re.match(r"\s*([^=\s][^=]*?)\s*=", line)
        if key:
            return f", near the key {key[1]}"
    return ""
