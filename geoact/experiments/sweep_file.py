"""A user's own sweep: a TOML file of the same shape as the experiments in catalogue.py.

    name = "radius"
    title = "Which radius suits the cheetah?"     # optional
    seeds = [0, 1, 2]
    num_envs = 8                                  # optional
    evaluations = 20                              # optional, as are eval_episodes and checkpoint_minutes
    in_order = true                               # optional: tasks as listed; otherwise the longest run first

    [tasks]                                       # environment id = vector steps
    "HalfCheetah-v5" = 30_000

    [variants.wide]                               # label; then the algorithm and its settings
    algorithm = "gac"
    radius = 3.5
    critic = { layer_norm = true }                # a group of settings is a table of its own

Every complaint names the file, the line and the key.
"""

import re
from pathlib import Path
from typing import Any

from geoact.checks import fits, spell
from geoact.errors import InputError
from geoact.experiments import toml_file
from geoact.experiments.catalogue import Experiment, ExperimentTask, Variant

_FIELDS: dict[str, Any] = {
    "name": str,
    "title": str,
    "seeds": list,
    "num_envs": int,
    "evaluations": int,
    "eval_episodes": int,
    "checkpoint_minutes": float,
    "in_order": bool,
    "tasks": dict,
    "variants": dict,
}


def read(path: Path) -> Experiment:
    """The experiment that a TOML file describes."""
    file = toml_file.load(path, "sweep")
    data, refuse = file.data, file.refuse
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
        tasks.append(ExperimentTask(env, steps))
    variants = {label: _variant(label, given, refuse) for label, given in data["variants"].items()}
    name = data.get("name", path.stem)
    if not re.fullmatch(r"\w[\w.-]*", name):
        raise refuse(
            ("name",), f"must be made of letters, digits, '.', '_' and '-', not '.' first, got {name!r}"
        )
    optional = {
        key: data[key]
        for key in ("num_envs", "evaluations", "eval_episodes", "checkpoint_minutes", "in_order")
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
