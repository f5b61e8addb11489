"""The paper's experiments, and ours, as data.

An experiment is a grid: tasks x variants x seeds. A task's length is in *vector steps*, the paper's unit
(one step of all environments together); the budget on the command line and everything in a run's directory is
in *transitions* (vector steps times environments).

What the paper leaves open, and how it is read here:

- PPO's budget. The paper gives one number of steps for all algorithms. In CleanRL, on which its baselines are
  modelled, SAC and TD3 count steps of their loop (vector steps) and PPO counts transitions, so that the paper's
  "1M steps" of PPO may be an eighth of the others' experience. By default PPO gets as many vector steps as the
  others; `read_ppo_budget` makes the other reading of any experiment.
- Table 3, "without kappa controller": a constant mixing weight 0.73 (kappa = 1) and no exploration bonus.
- Table 3, "without normalization": neither the direction nor the mixture is put on the sphere. The paper says that
  this diverges; whether it does may hang on what the critic sees, so there are two: the executed action, our default,
  and the one before clipping, under which nothing bounds the action's length.
- Table 3, "raw action output": as the second, with r = 1.
- Pusher-v4 cannot run on MuJoCo >= 3: its successor Pusher-v5 takes its place (its object is heavier).

No JAX here, and no environment is made: the records must load at once.
"""

import dataclasses
import difflib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from geoact.checks import changed
from geoact.config import AlgorithmConfig, GACConfig, OffPolicyConfig, defaults
from geoact.errors import InputError

SEEDS = (0, 10, 42, 77, 123)
"""The paper's."""
FULL = 1_000_000
"""Vector steps of the paper's runs."""
REDUCED = 40_000
"""Vector steps of the runs that two cores can make of all tasks: 320,000 transitions, a 25th of the paper's."""

RELEASED_WEIGHT = 0.856
"""The mixing weight of the paper's published Walker2d and Ant policies, in every state (geoact analyze kappa)."""

Settings = dict[str, Any]


@dataclass(frozen=True)
class ExperimentTask:
    """One environment of an experiment."""

    env: str
    """Environment id."""
    vector_steps: int
    """Length of a full run."""
    paper: str | None = None
    """The paper's name for it."""
    action_dim: int | None = None
    """Size of its action, where it is known beforehand: what a run's automatic settings come from."""
    note: str | None = None
    """What a reader must know beside its number."""

    @property
    def name(self) -> str:
        return self.paper or self.env


@dataclass(frozen=True)
class Variant:
    """An algorithm and the settings that differ from its defaults."""

    algorithm: str
    settings: Settings = field(default_factory=dict)
    """By their names; those of a group (critic, actor) as a mapping of their own."""
    paper: str | None = None
    """Its column or row in the paper's table."""
    tasks: tuple[str, ...] | None = None
    """Only on these tasks (their environment ids); everywhere without it."""
    length: float = 1.0
    """Length of its runs, relative to the task's."""
    method: str | None = None
    """The label of another variant that it stands for on its own tasks, where all tasks are taken together."""
    num_envs: int | None = None
    """Environments stepped together, where they are not as many as the experiment's."""

    @property
    def off_policy(self) -> bool:
        """Whether it learns from a replay buffer; PPO does not."""
        return isinstance(defaults(self.algorithm), OffPolicyConfig)

    def on(self, task: "ExperimentTask") -> bool:
        """Whether it is planned on this task."""
        return self.tasks is None or task.env in self.tasks

    def config(self) -> AlgorithmConfig:
        """The algorithm's configuration, checked."""
        return changed(defaults(self.algorithm), self.settings, self.algorithm)


@dataclass(frozen=True)
class Experiment:
    """Tasks x variants x seeds."""

    name: str
    title: str
    tasks: tuple[ExperimentTask, ...]
    variants: dict[str, Variant]
    """Label -> variant."""
    seeds: tuple[int, ...] = SEEDS
    num_envs: int = 8
    paper: str | None = None
    """Key of the paper's numbers in paper.json."""
    evaluations: int | None = None
    """Evaluations per run. Automatic: one per 8,000 transitions, at least 1 and at most 20."""
    eval_episodes: int = 10
    log_points: int = 200
    """Rows of metrics per run, beside the evaluations."""
    checkpoint_minutes: float = 5.0
    """Minutes between checkpoints, from which a killed run goes on."""
    notes: tuple[str, ...] = ()
    """What a reader must know beside its table."""
    in_order: bool = False
    """Run task after task as they are listed, each with its first seeds first. Otherwise the longest run starts
    first, which ends a sweep on many cores soonest."""

    def environments(self, variant: Variant) -> int:
        """Environments that a run of a variant steps together."""
        return variant.num_envs or self.num_envs


def _mujoco(name: str, action_dim: int, vector_steps: int = FULL) -> ExperimentTask:
    return ExperimentTask(name, vector_steps, name, action_dim)


def _dmcontrol(name: str, action_dim: int) -> ExperimentTask:
    return ExperimentTask(f"dm_control/{name}", FULL, name, action_dim)


MUJOCO = (
    _mujoco("Hopper-v4", 3),
    _mujoco("Walker2d-v4", 6),
    ExperimentTask(
        "Pusher-v5",
        500_000,
        "Pusher-v4",
        7,
        "run as Pusher-v5 (MuJoCo >= 3 cannot load v4; v5's object is heavier), the paper's number is v4's",
    ),
    _mujoco("HalfCheetah-v4", 6),
    _mujoco("Ant-v4", 8),
    _mujoco("Humanoid-v4", 17),
)
DMCONTROL = (
    _dmcontrol("fish-upright", 5),
    _dmcontrol("walker-walk", 6),
    _dmcontrol("walker-run", 6),
    _dmcontrol("cheetah-run", 6),
    _dmcontrol("quadruped-walk", 12),
    _dmcontrol("quadruped-run", 12),
)
_TASKS = {task.env: task for task in MUJOCO + DMCONTROL}
_ON_MUJOCO = tuple(task.env for task in MUJOCO)
_ON_DMCONTROL = tuple(task.env for task in DMCONTROL)

# What people look at first comes first.
_INTEREST = (
    "HalfCheetah-v4",
    "Walker2d-v4",
    "Hopper-v4",
    "Ant-v4",
    "dm_control/walker-run",
    "dm_control/cheetah-run",
    "dm_control/quadruped-walk",
    "Humanoid-v4",
    "dm_control/walker-walk",
    "dm_control/quadruped-run",
    "Pusher-v5",
    "dm_control/fish-upright",
)

# Something is aimed at there after 60,000 updates (report/milestones.py).
_AIMED = ("HalfCheetah-v4", "Walker2d-v4", "Hopper-v4", "Ant-v4", "dm_control/quadruped-walk")


def _tasks(vector_steps: int, *envs: str) -> tuple[ExperimentTask, ...]:
    """Some of the paper's tasks, at another length than the paper's."""
    return tuple(dataclasses.replace(_TASKS[env], vector_steps=vector_steps) for env in envs)


_BASELINES = {name: Variant(name, paper=name) for name in ("sac", "td3", "ppo")}

# The recipe of gac-fast, ingredient by ingredient: the settings that each is made of.
PLAIN = GACConfig(exploration="entropy")
"""What the recipe is built upon, and compared with."""
INGREDIENTS: dict[str, tuple[str, ...]] = {
    "normalization": ("normalize_obs", "normalize_reward", "alpha_init"),
    "layer-norm": ("critic",),
    "fast-target": ("tau",),
    "three-steps": ("n_step",),
    "short-replay": ("buffer_size",),
    "small-batch": ("batch_size",),
    "steadiness": ("actor_lr_halving", "critic_lr_halving", "cool_down", "policy_tau", "practice_share"),
    "geometry": ("slack", "radius", "concentration", "entropy_of"),
}


def _settings_of(config: AlgorithmConfig, names: tuple[str, ...]) -> Settings:
    """Some settings of a configuration, a group of settings as a mapping."""
    every = dataclasses.asdict(config)
    return {name: every[name] for name in names}


IN_EQUAL_TIME = {
    "no-normalization": 1.03,
    "no-layer-norm": 1.08,
    "no-fast-target": 0.98,
    "no-three-steps": 1.01,
    "no-short-replay": 0.99,
    "no-small-batch": 0.6,
    "no-steadiness": 0.96,
    "only-normalization": 0.7,
    "only-layer-norm": 0.66,
    "only-fast-target": 0.71,
    "only-three-steps": 0.73,
    "only-short-replay": 0.74,
    "only-small-batch": 1.21,
    "only-steadiness": 0.73,
    "only-geometry": 0.7,
    "gac-entropy": 0.74,
}
"""Lengths of the variants of `recipe` that take as much core time as the whole, where they are not as long: a batch of
256 costs more per update than one of 128 (benchmarks/lengths.py, results/sweeps/lengths.json)."""


def _recipe() -> dict[str, Variant]:
    """The whole recipe, the recipe without each ingredient, each ingredient alone, and nothing of it."""
    fast = defaults("gac-fast")
    whole = {"gac-fast": Variant("gac-fast")}
    without = {
        f"no-{label}": Variant("gac-fast", _settings_of(PLAIN, names)) for label, names in INGREDIENTS.items()
    }
    alone = {
        f"only-{label}": Variant("gac", {"exploration": "entropy"} | _settings_of(fast, names))
        for label, names in INGREDIENTS.items()
    }
    every = whole | without | alone | {"gac-entropy": Variant("gac", {"exploration": "entropy"})}
    return {
        label: dataclasses.replace(variant, length=IN_EQUAL_TIME.get(label, 1.0))
        for label, variant in every.items()
    }


EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        Experiment(
            "table1",
            "Table 1: six MuJoCo tasks",
            MUJOCO,
            {"gac": Variant("gac", paper="gac"), **_BASELINES},
            paper="table1_mujoco",
        ),
        Experiment(
            "table2",
            "Table 2: six DMControl tasks",
            DMCONTROL,
            {"gac-scale": Variant("gac-scale", paper="gac"), **_BASELINES},
            paper="table2_dmcontrol",
        ),
        Experiment(
            "table3",
            "Table 3: ablations on HalfCheetah",
            (_mujoco("HalfCheetah-v4", 6),),
            {
                "r=2.5": Variant("gac", {"radius": 2.5}, "default (kappa, r=2.5)"),
                "r=3.5": Variant("gac", {"radius": 3.5}, "r=3.5"),
                "r=1.5": Variant("gac", {"radius": 1.5}, "r=1.5"),
                "no-kappa": Variant(
                    "gac",
                    {"concentration": "fixed", "weight": 0.73, "exploration": "none"},
                    "without kappa controller (r=2.5)",
                ),
                "no-normalization": Variant(
                    "gac",
                    {"normalize_direction": False, "normalize_mixture": False},
                    "without normalization",
                ),
                "no-normalization-raw": Variant(
                    "gac",
                    {"normalize_direction": False, "normalize_mixture": False, "critic_action": "raw"},
                    "without normalization",
                ),
                "raw-output": Variant(
                    "gac",
                    {
                        "radius": 1.0,
                        "normalize_direction": False,
                        "normalize_mixture": False,
                        "critic_action": "raw",
                    },
                    "raw action output",
                ),
            },
            paper="table3_ablation_halfcheetah",
            notes=(
                "Without normalization: the critic sees the executed action (no-normalization), or the one before "
                "clipping (no-normalization-raw); the paper does not say which. In all of ours kappa is softplus; the "
                "paper's free kappa diverges by itself (results/free-kappa).",
            ),
        ),
        Experiment(
            "tableA2",
            "Table A.2: fixed and learned scale on Walker2d",
            (_mujoco("Walker2d-v4", 6, 500_000),),
            {
                "r=1": Variant("gac", {"radius": 1.0}, "r=1.0"),
                "r=2": Variant("gac", {"radius": 2.0}, "r=2.0"),
                "r=3": Variant("gac", {"radius": 3.0}, "r=3.0"),
                "learned": Variant("gac-scale", {}, "adaptive r"),
                "learned-softplus": Variant("gac-scale", {"scale_form": "softplus"}, "adaptive r"),
            },
            paper="tableA2_walker2d_500k",
            notes=("Adaptive r: bounded by 3.5 (learned), or the paper's softplus (learned-softplus).",),
        ),
        Experiment(
            "beyond",
            "Beyond the paper: exact entropy and slack on all twelve tasks",
            MUJOCO + DMCONTROL,
            {
                "gac": Variant("gac", paper="gac", tasks=_ON_MUJOCO),
                "gac-scale": Variant("gac-scale", paper="gac", tasks=_ON_DMCONTROL),
                "gac-slack": Variant("gac", {"slack": 1}),
                "gac-entropy": Variant("gac", {"exploration": "entropy"}, tasks=_ON_MUJOCO),
                "gac-scale-entropy": Variant("gac-scale", {"exploration": "entropy"}, tasks=_ON_DMCONTROL),
                "gac-entropy-slack": Variant("gac", {"exploration": "entropy", "slack": 1}),
            },
        ),
        Experiment(
            "weight",
            "Weight: a constant one, as the released policies have it, against softplus kappa and exact entropy",
            _tasks(REDUCED, "HalfCheetah-v4", "Walker2d-v4"),
            {
                "fixed-0.856": Variant(
                    "gac", {"concentration": "fixed", "weight": RELEASED_WEIGHT, "exploration": "none"}
                ),
                "softplus": Variant("gac"),
                "entropy": Variant("gac", {"exploration": "entropy"}),
            },
            seeds=(0, 10),
        ),
        Experiment(
            "evidence",
            "Evidence: all twelve tasks at one equal, reduced budget",
            _tasks(REDUCED, *_INTEREST),
            {
                "gac": Variant("gac", paper="gac", tasks=_ON_MUJOCO),
                "gac-scale": Variant("gac-scale", paper="gac", tasks=_ON_DMCONTROL, method="gac"),
                "gac-fast": Variant("gac-fast"),
                "sac-fast": Variant("sac-fast"),
                **_BASELINES,
                "gac-entropy": Variant("gac", {"exploration": "entropy"}, tasks=_ON_MUJOCO),
                "gac-scale-entropy": Variant(
                    "gac-scale", {"exploration": "entropy"}, tasks=_ON_DMCONTROL, method="gac-entropy"
                ),
            },
            seeds=(0, 10, 42),
            in_order=True,
        ),
        Experiment(
            "fast",
            "gac-fast and its critic under SAC for 60,000 updates on five tasks, 100,000 on the others",
            _tasks(65_000, *_AIMED) + _tasks(105_000, *(env for env in _INTEREST if env not in _AIMED)),
            {"gac-fast": Variant("gac-fast"), "sac-fast": Variant("sac-fast")},
            seeds=(0, 10),
            evaluations=13,  # one per 5,000 updates, in the longer runs one per 8,000
            in_order=True,
        ),
        Experiment(
            "long",
            "gac-fast for 200,000 vector steps",
            _tasks(200_000, "HalfCheetah-v4", "Walker2d-v4"),
            # The paper's form at the length of `evidence`, whose runs these are: for the time of its vector step.
            {"gac-fast": Variant("gac-fast"), "gac": Variant("gac", length=0.2)},
            seeds=(0,),
            evaluations=100,
            log_points=1_000,
            in_order=True,
        ),
        Experiment(
            "recipe",
            "The recipe of gac-fast taken apart on the development tasks, at equal core time",
            _tasks(REDUCED // 2, "HalfCheetah-v4", "Walker2d-v4", "Hopper-v4", "dm_control/quadruped-walk"),
            _recipe(),
            seeds=(0, 10),
            evaluations=5,  # of ten episodes; twenty would make more steps than the training
            in_order=True,
        ),
        Experiment(
            "growing",
            "gac-fast made larger, at equal core time",
            _tasks(REDUCED, "HalfCheetah-v4", "Walker2d-v4"),
            # Lengths in as much core time (benchmarks/lengths.py, results/sweeps/lengths.json).
            {
                "gac-fast": Variant("gac-fast"),
                "width-512": Variant(
                    "gac-fast",
                    {"actor": {"hidden_sizes": (512, 512)}, "critic": {"hidden_sizes": (512, 512)}},
                    length=0.36,
                ),
                "batch-256": Variant("gac-fast", {"batch_size": 256}, length=0.65),
                "environments-16": Variant("gac-fast", length=0.89, num_envs=16),
                "updates-2": Variant("gac-fast", {"updates_per_step": 2}, length=0.64),
            },
            seeds=(0, 10),
            in_order=True,
        ),
        Experiment(
            "baselines",
            "Baselines: SAC, TD3 and PPO as Stable-Baselines3's are trained in benchmarks/peers.py",
            _tasks(20_000, "HalfCheetah-v4", "Hopper-v4"),
            # PPO learns in whole rollouts of 2,048 transitions: 196 of them, 401,408 transitions.
            _BASELINES | {"ppo": Variant("ppo", paper="ppo", length=2.5088)},
            seeds=(0, 10, 42),
            evaluations=10,
        ),
    )
}


def task_name(env: str) -> str:
    """One name for all ids that mean the same task: walker-run for dm_control/walker-run and ...-v0."""
    return re.sub(r"^dm_control/(.*?)(-v0)?$", r"\1", env)


def same_task(env: str, other: str) -> bool:
    """Whether two environment ids mean the same task."""
    return task_name(env) == task_name(other)


def read_ppo_budget(experiment: Experiment, unit: Literal["vector-steps", "transitions"]) -> Experiment:
    """The experiment with PPO's "steps" read in this unit; the other algorithms' are vector steps."""
    share = 1.0 if unit == "vector-steps" else 1.0 / experiment.num_envs
    variants = {
        label: variant if variant.off_policy else dataclasses.replace(variant, length=variant.length * share)
        for label, variant in experiment.variants.items()
    }
    return dataclasses.replace(experiment, variants=variants)


def select(
    experiment: Experiment,
    tasks: Sequence[str] | None = None,
    variants: Sequence[str] | None = None,
    seeds: str | None = None,
) -> Experiment:
    """A part of an experiment; a name that is not in it is answered with those that are."""
    chosen_tasks = experiment.tasks
    if tasks is not None:
        chosen_tasks = tuple(dict.fromkeys(_pick_task(experiment, name) for name in tasks))
    chosen = experiment.variants
    if variants is not None:
        for name in variants:
            if name not in chosen:
                raise InputError(_not_in(experiment, "algorithm", name, list(experiment.variants)))
        chosen = {label: variant for label, variant in chosen.items() if label in variants}
    numbers = experiment.seeds if seeds is None else parse_seeds(seeds, experiment.seeds)
    return dataclasses.replace(experiment, tasks=chosen_tasks, variants=chosen, seeds=numbers)


def _pick_task(experiment: Experiment, name: str) -> ExperimentTask:
    for task in experiment.tasks:
        if name in (task.env, task.name) or same_task(name, task.env):
            return task
    raise InputError(_not_in(experiment, "task", name, [task.name for task in experiment.tasks]))


def _not_in(experiment: Experiment, kind: str, name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(known)}"
    return f"{experiment.name} has no {kind} {name!r}: {hint}"


def parse_seeds(text: str, known: tuple[int, ...]) -> tuple[int, ...]:
    """`3`: the first three of the experiment's seeds; `0,10`: these (`42,` for one alone)."""
    words = [word.strip() for word in text.split(",")]
    if not all(re.fullmatch(r"\d+", word) for word in words if word) or not any(words):
        raise InputError(
            f"seeds must be a count (3) or a list (0,10,42; for one alone: 42,), got {text!r}: use whole numbers"
        )
    numbers = tuple(int(word) for word in words if word)
    if len(words) > 1:
        if len(set(numbers)) != len(numbers):
            raise InputError(f"seeds {text!r} names a seed twice")
        return numbers
    count = numbers[0]
    if not 1 <= count <= len(known):
        raise InputError(
            f"seeds {count} asks for the first {count} of the experiment's {len(known)} seeds "
            f"({', '.join(map(str, known))}): use 1 to {len(known)}, or a list such as {count},"
        )
    return known[:count]


def parse_budget(text: str | None) -> float | int | None:
    """`0.002`: that fraction of every run; `16000`: that many transitions; nothing: all of it."""
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if math.isfinite(value) and (0 < value <= 1 or (value > 1 and value == int(value))):
        return value if value <= 1 else int(value)
    raise InputError(
        f"budget must be a fraction of the full run (0.01) or a number of transitions (80000), got {text!r}"
    )


def transitions(task: ExperimentTask, num_envs: int, budget: float | int | None, length: float = 1.0) -> int:
    """Transitions of one run of a task under a budget, of a variant with this relative length."""
    if isinstance(budget, int):
        return budget
    return max(1, round(task.vector_steps * length * (1.0 if budget is None else budget))) * num_envs
