# pyright: reportMissingImports=false
"""Minutes until a policy is good (case i): training time on one core until an evaluation first passes a return.

    python -m benchmarks.returns CONTESTANT ENV SEED --out FOLDER      one training, in a process of its own

Everyone has eight environments, one core and one thread, and is evaluated after every 16,000 transitions over ten
deterministic episodes, whose time does not count; compiling does. A training ends when the last threshold is passed.
It is given up after `PATIENCE` times as long as gac-fast took there with the same seed: then it is known to be so many
times slower, and how many more is not worth the hours. Where gac-fast did not get there, everyone has `LIMIT` minutes.

geoact's algorithms come by their names, with their default settings. The peers have their own defaults: SAC of
Stable-Baselines3, and SAC, TQC and CrossQ of SBX, with one gradient update per vector step, which is what both
libraries do unless told otherwise.
"""

import argparse
import contextlib
import dataclasses
import json
import math
import platform
import statistics
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, NamedTuple

from benchmarks.peers_queue import work_off
from geoact.config import REGISTRY
from geoact.report.style import colors_of, drawing, new_figure, save_figure
from geoact.report.tables import Value
from geoact.storage.files import write_bytes

THRESHOLDS = {
    "Walker2d-v4": (1_500, 3_000),
    "Hopper-v4": (1_000, 2_500),
    "HalfCheetah-v4": (4_000, 7_000),
    "Ant-v4": (1_500, 3_000),
}
"""In their order: the tasks that take least come first."""
OURS = ("gac-fast", "sac-fast", "gac", "sac")
PEERS = {
    "sbx-crossq": "SBX CrossQ",
    "sbx-tqc": "SBX TQC",
    "sbx-sac": "SBX SAC",
    "sb3-sac": "Stable-Baselines3 SAC",
}
SEEDS = (0, 10)
ENVIRONMENTS = 8
EVERY = 16_000
"""Transitions between evaluations."""
PATIENCE = 3.0
"""Times as long as gac-fast took to the last threshold, after which the others are given up."""
LIMIT = 10.0
"""Minutes of training after which gac-fast is given up, and everyone where it was."""
PACKAGES = ("geoact", "jax", "gymnasium", "mujoco", "numpy")


@dataclass(frozen=True)
class Training:
    """One contestant on one task."""

    contestant: str
    env: str
    seed: int

    @property
    def name(self) -> str:
        return f"{self.contestant}__{self.env}__s{self.seed}"

    def command(self, out: Path) -> list[str]:
        return ["benchmarks.returns", self.contestant, self.env, str(self.seed), "--out", str(out)]


def trainings() -> list[Training]:
    """All of them, task after task and seed after seed, so that a part compares everyone somewhere.

    gac-fast comes first, then the peers.
    """
    order = (OURS[0], *PEERS, *OURS[1:])
    return [Training(name, env, seed) for env in THRESHOLDS for seed in SEEDS for name in order]


class Watch:
    """Collects evaluations as (minutes of training, transitions, mean return), and says when it is enough."""

    def __init__(self, training: Training, folder: Path):
        self.last = THRESHOLDS[training.env][-1]
        self.first = folder / f"{dataclasses.replace(training, contestant=OURS[0]).name}.json"
        self.seen: list[tuple[float, int, float]] = []

    def limit(self) -> float:
        """Minutes after which it is given up; gac-fast's may still be on its way, so one looks each time."""
        if not self.first.exists():
            return LIMIT
        reached = minutes_to(json.loads(self.first.read_text()), self.last)
        return PATIENCE * reached if math.isfinite(reached) else LIMIT

    def goes_on(self, seconds: float, transitions: int, mean: float) -> bool:
        self.seen.append((round(seconds / 60.0, 3), transitions, round(mean, 1)))
        return mean < self.last and seconds < 60.0 * self.limit()


def train_ours(training: Training, watch: Watch) -> None:
    """A run of geoact, as from Python."""
    import geoact
    from geoact.agent import agent_class

    total = 10_000 * EVERY  # the limit comes first
    options = geoact.RunOptions(
        seed=training.seed, num_envs=ENVIRONMENTS, threads=1, evaluations=total // EVERY, log_points=1
    )

    def look(row: dict[str, float]) -> bool:
        if "eval/return_mean" not in row:
            return True
        return watch.goes_on(row["time/elapsed"], int(row["step"]), row["eval/return_mean"])

    config = REGISTRY[training.contestant].config
    agent = agent_class(REGISTRY[training.contestant].agent)(training.env, config, options=options)
    agent.learn(total, look)


def train_peer(training: Training, watch: Watch) -> None:
    """A run of a peer, with its own defaults."""
    import torch
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_vec_env

    from benchmarks.peers import Evaluator

    torch.set_num_threads(1)
    library, algorithm = training.contestant.split("-")
    envs = make_vec_env(training.env, n_envs=ENVIRONMENTS, seed=training.seed)
    evaluator = Evaluator(training.env)

    class Look(BaseCallback):
        spent = 0.0

        def _on_step(self) -> bool:
            if self.num_timesteps % EVERY:
                return True
            began = time.perf_counter()
            mean, _ = evaluator(self.model)
            self.spent += time.perf_counter() - began
            return watch.goes_on(time.perf_counter() - started - self.spent, self.num_timesteps, mean)

    if library == "sb3":
        from stable_baselines3 import SAC

        model: Any = SAC("MlpPolicy", envs, device="cpu", seed=training.seed)
    else:
        import sbx

        kinds = {"sac": sbx.SAC, "tqc": sbx.TQC, "crossq": sbx.CrossQ}
        model = kinds[algorithm]("MlpPolicy", envs, seed=training.seed)
    started = time.perf_counter()
    model.learn(10_000 * EVERY, callback=Look(), log_interval=None)


def measure(folder: Path, cores: list[int]) -> list[str]:
    """Every training that has no file yet, one per core side by side; the names of those that failed."""
    return work_off(trainings(), folder, cores)


def minutes_to(found: dict[str, Any], threshold: float) -> float:
    """Minutes until the first evaluation of at least the threshold; infinite where there was none."""
    return next((m for m, _, mean in found["evaluations"] if mean >= threshold), math.inf)


class Time(NamedTuple):
    """Minutes to a return, of one seed: reached, or not by then."""

    minutes: float
    reached: bool


def time_to(found: dict[str, Any], threshold: float) -> Time:
    """When it was reached, or when it was given up."""
    minutes = minutes_to(found, threshold)
    return Time(minutes, True) if math.isfinite(minutes) else Time(found["evaluations"][-1][0], False)


class Table(NamedTuple):
    """What report.py writes."""

    columns: list[str]
    rows: list[list[Value]]
    note: str


def load(folder: Path) -> list[dict[str, Any]]:
    """The records of all trainings measured so far."""
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]


def contestants(files: list[dict[str, Any]]) -> list[str]:
    """Who is in these records."""
    return [c for c in (*OURS, *PEERS) if any(f["contestant"] == c for f in files)]


def tasks_of(files: list[dict[str, Any]]) -> list[str]:
    """What they were measured on."""
    return [env for env in THRESHOLDS if any(f["env"] == env for f in files)]


def table(files: list[dict[str, Any]]) -> Table:
    """Minutes to each threshold."""
    names = contestants(files)
    measured = tasks_of(files)
    rows: list[list[Value]] = []
    for env in measured:
        for threshold in THRESHOLDS[env]:
            times = {
                name: [time_to(f, threshold) for f in files if (f["contestant"], f["env"]) == (name, env)]
                for name in names
            }
            rows.append([env, threshold, *map(cell, times.values()), ratio(times)])
    seeds = ", ".join(map(str, sorted({f["seed"] for f in files})))
    machines = " and ".join(sorted({f["machine"] for f in files}))
    note = (
        f"Minutes of training on one core, mean over the seeds {seeds} (in brackets: from the fastest to the slowest); "
        f"with >: not reached by then. A training is given up after {PATIENCE:g} times the minutes that {OURS[0]} "
        f"took to the higher return with the same seed, or {LIMIT:g} where it did not get there. Last: how many times "
        f"as long as {OURS[0]} the fastest of the peers takes. Measured on {machines}: everyone with a seed on a task "
        "on one machine, others perhaps on faster and slower ones, so minutes are to be compared within a row."
    )
    if missing := [env for env in THRESHOLDS if env not in measured]:
        note += f" Not measured yet: {', '.join(missing)}."
    columns = ["task", "return", *(PEERS.get(name, name) for name in names), "fastest peer"]
    return Table(columns, rows, note)


def cell(times: list[Time]) -> str:
    """Minutes of all seeds in one cell."""
    if not times:
        return ""
    minutes, reached = [time.minutes for time in times], sum(time.reached for time in times)
    more = "" if reached == len(times) else "> "
    if len(times) == 1:
        detail = " (one seed)"
    elif 0 < reached < len(times):
        detail = f" ({reached} of {len(times)} seeds)"
    else:
        detail = f" ({min(minutes):.1f} to {max(minutes):.1f})" if reached else ""
    return f"{more}{mean_minutes(times):.1f}{detail}"


def ratio(times: dict[str, list[Time]]) -> str:
    """Times as long that the fastest peer takes: at least that where it was given up, nothing where we were."""
    ours = times.get(OURS[0], [])
    peers = [found for name, found in times.items() if name in PEERS and found]
    if not ours or not all(time.reached for time in ours) or not peers:
        return ""
    fastest = min(peers, key=mean_minutes)
    more = "" if all(time.reached for time in fastest) else "> "
    return f"{more}{mean_minutes(fastest) / mean_minutes(ours):.1f}"


def mean_minutes(times: list[Time]) -> float:
    """The mean over seeds; with one that was given up it is more than that."""
    return statistics.mean(time.minutes for time in times)


def draw(files: list[dict[str, Any]], stem: Path) -> list[Path]:
    """Evaluations over minutes of training, a panel per task, a line per seed; the returns asked for are dotted."""
    from matplotlib.lines import Line2D

    names = contestants(files)
    tasks = tasks_of(files)
    colors = colors_of(names)
    lines: dict[str, Literal["-", "--"]] = {name: "--" if name in PEERS else "-" for name in names}
    with drawing():
        figure = new_figure(3.2 * len(tasks) + 0.4, 3.4)
        for panel, env in zip(figure.subplots(1, len(tasks), squeeze=False).ravel(), tasks):
            for found in (f for name in names for f in files if (f["contestant"], f["env"]) == (name, env)):
                minutes, _, returns = zip(*found["evaluations"])
                name = found["contestant"]
                panel.plot(minutes, returns, linestyle=lines[name], color=colors[name])
            for threshold in THRESHOLDS[env]:
                panel.axhline(threshold, color="black", linestyle=":", linewidth=0.8)
            panel.set_title(env)
            panel.set_xlabel("minutes of training on one core")
            panel.set_xlim(0, None)
        figure.axes[0].set_ylabel("deterministic evaluation")
        handles = [Line2D([], [], color=colors[name], linestyle=lines[name]) for name in names]
        labels = [PEERS.get(name, name) for name in names]
        figure.legend(handles, labels, loc="outside lower center", ncols=max(2, 2 * len(tasks)))
        return save_figure(figure, stem)


def machine() -> str:
    """The processor, as far as the system tells it: minutes are of a machine, and virtual ones share their names."""
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().partition("\n\n")[0].splitlines()
        facts = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        if name := facts.get("model name"):
            exact = [f"{key} {facts[key]}" for key in ("cpu family", "model") if key in facts]
            return f"{name} ({', '.join(exact)})" if exact else name
    return platform.processor() or platform.machine()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("contestant", choices=(*OURS, *PEERS))
    parser.add_argument("env", choices=tuple(THRESHOLDS))
    parser.add_argument("seed", type=int)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    training = Training(args.contestant, args.env, args.seed)
    watch = Watch(training, args.out)
    (train_ours if training.contestant in OURS else train_peer)(training, watch)
    packages = (
        PACKAGES if training.contestant in OURS else (*PACKAGES, "stable-baselines3", "sbx-rl", "torch")
    )
    record = {
        "contestant": training.contestant,
        "env": training.env,
        "seed": training.seed,
        "machine": machine(),
        "versions": {name: version(name) for name in packages},
        "evaluations": watch.seen,
    }
    args.out.mkdir(parents=True, exist_ok=True)
    write_bytes(args.out / f"{training.name}.json", (json.dumps(record) + "\n").encode())
    print(f"{training.name}: {watch.seen[-1]}")


if __name__ == "__main__":
    main()
