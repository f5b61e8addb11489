"""Summaries of runs that ended: small enough to be committed, read by every report as the runs themselves.

    results/evidence/
      sweep.json                  which run is which variant
      <run>/run.json              as it was
      <run>/status.json           finished, with the two scores of the run, computed from all of its rows; or failed
      <run>/metrics.jsonl         at most 40 rows: what curves and figures show

A row of a summary stands for the rows of the run since the row before it. Its training return and length are the
means over all episodes in between, so that no episode is lost; everything else is the last value in between. Rows
with an evaluation stay, and what happens inside the policy is kept there alone (in about twenty rows where there are
few evaluations). Numbers have five digits, except the scores, which are exact.

A failed run is an answer, too, and has no scores. A sweep that finds a summary in its folder counts it as the run that
it was.

A run of an algorithm that learns from replay begins as a shorter one does: nothing in it knows how long it will be. So
a summary can be that of its first transitions, which is the one that the shorter run would have had.
"""

import dataclasses
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from geoact.config import OffPolicyConfig
from geoact.errors import InputError
from geoact.report.collect import SCORES, RunData, collect
from geoact.storage import files
from geoact.storage.runs import SCALE_DEVIATION, SCALE_STD

MAX_ROWS = 40
FULL_ROWS = 20
RETURN_COLUMNS = ("step", "updates", "time/elapsed", "charts/episodic_return", "charts/episodes")
"""What every row has."""
COLUMNS = (
    *RETURN_COLUMNS,
    "charts/episodic_length",
    "eval/return_mean",
    "eval/return_std",
    "losses/qf_values",
    "losses/values",
    "losses/alpha",
    "policy/kappa",
    "policy/weight",
    "policy/clipped",
    "policy/norm",
    "policy/entropy",
    "policy/scale",
    SCALE_DEVIATION,
    SCALE_STD,  # of runs of version 0.1
)
"""What the tables, figures and pages read; and the mean scale of every dimension, `policy/scale/0` and so on."""
EPISODE_MEANS = ("charts/episodic_return", "charts/episodic_length")


@dataclass(frozen=True)
class Summaries:
    """What was written, and what was not."""

    written: list[Path] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    """A sentence for each run that has not ended or cannot be read."""


def summarize(runs_dir: Path, out: Path, timesteps: int | None = None) -> Summaries:
    """Copy the finished and the failed runs of a directory into `out` as summaries; what is there is replaced.

    With `timesteps`, longer runs are summarised as what they were after so many transitions.
    """
    found, skipped = collect(runs_dir)
    if out.resolve() == runs_dir.resolve():
        raise InputError(f"{out} holds the runs themselves: give another folder for their summaries")
    done = Summaries(left_out=list(skipped))
    labels: dict[str, str] = {}
    experiment: dict[str, Any] = {}
    for run in found:
        if out.resolve() in run.path.resolve().parents:
            continue  # a summary of before
        if run.state not in ("finished", "failed"):
            done.left_out.append(f"{run.path.name}: {run.state}")
            continue
        name = run.path.name
        if timesteps is not None and run.config.timesteps > timesteps:
            try:
                run = beginning(run, timesteps)
            except InputError as error:
                done.left_out.append(f"{name}: {error}")
                continue
            name = re.sub(r"__\d+t$", "", name) + f"__{timesteps}t"
        if name in labels:
            done.left_out.append(f"{run.path}: another run has the same name")
            continue
        labels[name] = run.label
        experiment = experiment or _sweep(run.path.parent)
        done.written.append(write_summary(run, out / name))
    if labels:
        before = _sweep(out)
        runs = before.get("runs")
        known: dict[str, Any] = runs if isinstance(runs, dict) else {}
        heading = {key: experiment.get(key, before.get(key, "")) for key in ("experiment", "title")}
        data = {"format": "geoact-sweep", "schema": 1, **heading, "runs": {**known, **labels}}
        files.write_json(out / "sweep.json", data)
    return done


def beginning(run: RunData, timesteps: int) -> RunData:
    """A longer run as it was after `timesteps` transitions: what a run of that length would have been."""
    config, settings = run.config, run.config.settings
    if not isinstance(settings, OffPolicyConfig):
        raise InputError(f"{config.algorithm} learns at a rate that depends on the length of its run")
    (evaluations, odd), (log_points, odd_too) = (
        divmod(number * timesteps, config.timesteps) for number in (config.evaluations, config.log_points)
    )
    shorter = dataclasses.replace(config, timesteps=timesteps, evaluations=evaluations, log_points=log_points)
    # What is resolved does not ask for the size of the action any more.
    resolved = settings.resolve(config.env, 2, timesteps, config.num_envs)
    warm_up, longer = (settings.warm_up(c.vector_steps) for c in (shorter, config))
    if settings.cool_down:
        raise InputError(f"a run of {timesteps:,} transitions cools down at its own end")
    if resolved != settings or warm_up != longer:
        raise InputError(f"a run of {timesteps:,} transitions has a shorter warm-up")
    if odd or odd_too:
        raise InputError(f"a run of {timesteps:,} transitions is evaluated at other steps")
    if run.summary is not None:
        raise InputError("it is a summary, which cannot be shortened")
    rows = [row for row in run.rows if row["step"] <= timesteps]
    if not rows or rows[-1]["step"] < timesteps:
        raise InputError(f"it ended before {timesteps:,} transitions")
    return dataclasses.replace(run, config=shorter, rows=rows, state="finished", reason="")


def _sweep(folder: Path) -> dict[str, Any]:
    try:
        return files.read_json(folder / "sweep.json")
    except (OSError, InputError):
        return {}


def write_summary(run: RunData, folder: Path) -> Path:
    """The summary of one run that ended, in this folder."""
    if (folder / "run.json").exists() and "scores" not in files.read_json(folder / "status.json"):
        raise InputError(f"{folder} is a run, not a summary: give another folder for the summaries")
    about = files.read_json(run.path / "run.json")
    status: dict[str, Any] = files.read_json(run.path / "status.json")
    if about["config"]["timesteps"] != run.config.timesteps:  # its beginning
        about["config"] |= run.config.to_json()
        status = {"state": "finished", "timesteps": run.config.timesteps, "total": run.config.timesteps}
    status |= {"scores": {kind: run.score(kind) for kind in SCORES}}
    folder.mkdir(parents=True, exist_ok=True)
    files.write_json(folder / "run.json", about)
    lines = [json.dumps(row, allow_nan=False, separators=(",", ":")) for row in thin(run.rows)]
    files.write_bytes(folder / "metrics.jsonl", "".join(f"{line}\n" for line in lines).encode())
    files.write_json(folder / "status.json", status)  # last: with it the summary is complete
    return folder


def thin(rows: list[dict[str, Any]], limit: int = MAX_ROWS) -> list[dict[str, Any]]:
    """At most `limit` rows for any number of them: those with an evaluation, the last, and others evenly between."""
    keep = {i for i, row in enumerate(rows) if "eval/return_mean" in row} | (
        {len(rows) - 1} if rows else set()
    )
    if len(keep) > limit:
        ordered = sorted(keep)
        keep = {ordered[round(i * (len(ordered) - 1) / (limit - 1))] for i in range(limit)}
    room = limit - len(keep)
    others = [i for i in range(len(rows)) if i not in keep]
    if len(others) <= room:
        keep |= set(others)
    elif room:
        keep |= {others[int((i + 0.5) * len(others) / room)] for i in range(room)}
    full = {i for i in keep if "eval/return_mean" in rows[i]}
    if len(full) < FULL_ROWS // 2:
        ordered = sorted(keep)
        number = min(FULL_ROWS, len(ordered))
        full |= {ordered[len(ordered) - 1 - i * len(ordered) // number] for i in range(number)}
    thinned: list[dict[str, Any]] = []
    since: list[dict[str, Any]] = []
    for i, row in enumerate(rows):
        since.append(row)
        if i in keep:
            thinned.append(_merge(since, i in full))
            since = []
    return thinned


def _merge(rows: list[dict[str, Any]], full: bool) -> dict[str, Any]:
    """One row for several, with all columns or the returns': episodes are averaged, everything else is the newest."""
    merged: dict[str, Any] = {}
    for row in rows:
        merged |= {name: value for name, value in row.items() if not name.startswith("eval/")}
    merged |= {name: value for name, value in rows[-1].items() if name.startswith("eval/")}
    with_episodes = [row for row in rows if "charts/episodic_return" in row]
    if with_episodes:
        weights = [row.get("charts/episodes", 1) for row in with_episodes]
        merged["charts/episodes"] = sum(weights)
        for name in EPISODE_MEANS:
            if all(name in row for row in with_episodes):
                total = sum(row[name] * weight for row, weight in zip(with_episodes, weights))
                merged[name] = total / sum(weights)
    scales = sorted(name for name in merged if name.startswith("policy/scale/"))
    names = [*COLUMNS, *scales] if full else RETURN_COLUMNS
    return {name: _short(merged[name]) for name in names if name in merged}


def _short(value: float) -> float:
    """Five digits; whole numbers as they are."""
    return value if isinstance(value, int) else float(f"{value:.5g}")
