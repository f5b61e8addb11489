"""What a method costs: time per action and per update, outputs and parameters.

The paper gives time per action sample on its GPU, relative to SAC: GAC 0.78, TD3 0.65. Here, at HalfCheetah's
sizes (17 observations, 6 actions, 256-256 networks), relative to SAC in the same run:

- one action       one observation, exploring, in the NumPy runtime: a policy on a machine
- batch of actions 256 observations, exploring, compiled: network, noise and action
- update           one gradient update of everything, batch 256, compiled (TD3: its policy at every second one)

On a CPU the networks' matrix products dominate the compiled two, so the methods lie close together there. One
action in NumPy is made of small calls, and GAC, with its concentration head and two normalisations, makes the most.
"""

from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from geoact.analysis.act_cost import random_policy
from geoact.analysis.timing import interleaved, ratio
from geoact.config import REGISTRY, OffPolicyConfig
from geoact.environments import tasks
from geoact.experiments.paper_numbers import paper_numbers
from geoact.report import style
from geoact.report.tables import Value, write_table

METHODS = tuple(name for name, entry in REGISTRY.items() if isinstance(entry.config, OffPolicyConfig))
"""Those that act and learn at every vector step."""
OBS_DIM, ACTION_DIM, BATCH = 17, 6, 256
STEPS = 8  # batches of actions in one compiled call
HEADS = (
    "direction",
    "concentration.1",
    "scale",
    "mean",
    "log_std",
)  # the layers whose outputs are the policy's


def run(out: Path, seed: int = 0, rounds: int = 15) -> list[Path]:
    """Measure and count; write both tables and the figure."""
    times = {
        "one action": interleaved(_single_actions(seed), 3 * rounds),
        "batch of actions": interleaved(_batch_actions(seed), rounds, burst=0.05),
        "update": interleaved(_updates(seed), rounds, burst=0.1),
    }
    published = paper_numbers()["complexity"]["relative_time_per_action_sample_rtx3090"]
    rows: list[list[Value]] = []
    for method in METHODS:
        ratios = [ratio(measured, method, "sac") for measured in times.values()]
        rows.append([method, *(cell for pair in ratios for cell in pair), published.get(method)])
    columns = ["method"]
    for name in times:
        columns += [name, f"{name}, quartiles"]
    columns.append("paper, per action")
    repeats = {"one action": 1, "batch of actions": STEPS, "update": 2}  # within one call
    scale = {
        name: 1e6 * float(np.median(measured["sac"])) / repeats[name] for name, measured in times.items()
    }
    files = write_table(
        out / "cost",
        "Time relative to SAC",
        columns,
        rows,
        f"CPU time, one thread, HalfCheetah's sizes. Median and quartiles of {rounds} rounds ({3 * rounds} for one "
        "action) in which the methods take turns. Only the ratios are meant; SAC's own times here were "
        + ", ".join(f"{value:,.0f} us ({name})" for name, value in scale.items())
        + ". The paper's: per action sample, on its GPU.",
        {name: ".2f" for name in columns if name in times or name.startswith("paper")},
    )
    files += _parameters(out)
    with style.drawing():
        files += _figure(out, rows, list(times), published)
    return files


def counts(method: str, obs_dim: int, action_dim: int) -> tuple[int, int]:
    """Outputs and parameters of a method's policy."""
    tensors = random_policy(method, obs_dim, action_dim).tensors
    outputs = sum(tensors[f"{head}.bias"].size for head in HEADS if f"{head}.bias" in tensors)
    return outputs, sum(prod(tensor.shape) for tensor in tensors.values())


def _parameters(out: Path) -> list[Path]:
    rows: list[list[Value]] = []
    for task in tasks.PAPER:
        row: list[Value] = [task.name, task.obs_dim, task.action_dim]
        for method in METHODS:
            row += counts(method, task.obs_dim, task.action_dim)
        rows.append(row)
    columns = ["task", "observations", "actions"]
    for method in METHODS:
        columns += [f"{method}: outputs", f"{method}: parameters"]
    return write_table(
        out / "parameters",
        "Outputs and parameters of the policies",
        columns,
        rows,
        "Outputs: d + 1 for GAC (direction and kappa), 2d + 1 with a learned scale, 2d for SAC (mean and deviation), d "
        "for TD3. GAC's concentration head has a hidden layer of 64 of its own, so that fewer outputs do not mean "
        "fewer parameters: it has more of them than SAC.",
        dict.fromkeys(columns[1:], ",.0f"),
    )


def _single_actions(seed: int) -> dict[str, Callable[[], object]]:
    rng = np.random.default_rng(seed)
    obs = rng.standard_normal(OBS_DIM)

    def method(name: str) -> Callable[[], object]:
        policy = random_policy(name, OBS_DIM, ACTION_DIM)
        return lambda: policy(obs, rng)

    return {name: method(name) for name in METHODS}


def _batch_actions(seed: int) -> dict[str, Callable[[], object]]:
    import jax
    import jax.numpy as jnp

    from geoact import algorithms, policies
    from geoact.networks import JAX

    obs = jax.random.normal(jax.random.key(seed), (BATCH, OBS_DIM))
    keys = jax.random.split(jax.random.key(seed + 1), STEPS)

    def method(name: str) -> Callable[[], object]:
        settings = REGISTRY[name].config.resolve("", ACTION_DIM, 10**6)
        head, kind = settings.head(), policies.KINDS[settings.kind]
        algorithm = algorithms.build(name, settings, OBS_DIM, ACTION_DIM)
        state = algorithm.policy(algorithm.init(jax.random.key(seed)))
        noise_dim = policies.noise_dim(settings.kind, head, ACTION_DIM)

        @jax.jit
        def act(tensors: Any, obs: Any, keys: Any) -> Any:
            def step(total: Any, key: Any) -> tuple[Any, None]:
                noise = jax.random.normal(key, (BATCH, noise_dim))
                noise = JAX.normalize(noise) if kind.sphere_noise else noise
                # the small shift keeps the compiler from taking the network out of the loop
                x = policies.hidden(JAX, settings.actor, tensors, obs + 1e-6 * total[:, :1])
                return total + kind.act(JAX, head, tensors, x, noise, ACTION_DIM), None

            return jax.lax.scan(step, jnp.zeros((BATCH, ACTION_DIM)), keys)[0]

        return lambda: jax.block_until_ready(act(state, obs, keys))

    return {name: method(name) for name in METHODS}


def _updates(seed: int) -> dict[str, Callable[[], object]]:
    import jax

    from geoact import algorithms
    from geoact.transitions import row_width

    rng = np.random.default_rng(seed)
    rows = rng.uniform(-1.0, 1.0, (2, BATCH, row_width(OBS_DIM, ACTION_DIM))).astype(np.float32)

    def method(name: str) -> Callable[[], object]:
        algorithm = algorithms.build(
            name, REGISTRY[name].config.resolve("", ACTION_DIM, 10**6), OBS_DIM, ACTION_DIM
        )
        # Two updates in one call, so that TD3's policy learns in exactly one of them.
        update = jax.jit(algorithm.update, donate_argnums=0)
        key = jax.random.key(seed)
        state = [
            jax.jit(algorithm.init)(key)
        ]  # compiled, every tensor has memory of its own, as donating it needs

        def call() -> object:
            state[0], value, _ = update(state[0], rows, key)
            return jax.block_until_ready(value)

        return call

    return {name: method(name) for name in METHODS}


def _figure(
    out: Path, rows: list[list[Value]], measures: list[str], published: dict[str, float]
) -> list[Path]:
    figure = style.new_figure(6.4, 3.2)
    axis = figure.subplots()
    width, top = 0.8 / len(METHODS), 1.0
    for i, row in enumerate(rows):
        method = str(row[0])
        values = np.array([row[1 + 2 * j] for j in range(len(measures))], float)
        ends = np.array([[float(x) for x in str(row[2 + 2 * j]).split(" to ")] for j in range(len(measures))])
        error, top = np.abs(ends.T - values), max(top, float(ends.max()))
        x = np.arange(len(measures)) + (i - 1.5) * width
        axis.bar(x, values, 0.92 * width, color=style.METHOD_COLORS[method], label=method)
        axis.errorbar(x, values, error, fmt="none", ecolor="0.25", capsize=2, lw=1)
        if method in published and method != "sac":
            label = "paper, per action on its GPU" if method == "gac" else None
            axis.plot(x[:2], [published[method]] * 2, "k_", ms=14, mew=1.6, label=label)
    axis.axhline(1, color="0.4", lw=0.8)
    axis.set_xticks(range(len(measures)), measures)
    axis.set(ylabel="CPU time relative to SAC", ylim=(0, 1.3 * top))
    axis.grid(axis="x", visible=False)
    axis.legend(ncols=3, loc="upper left")
    return style.save_figure(figure, out / "cost")
