"""What one sample costs: geometric mixing, von Mises-Fisher by rejection, tanh-Gaussian with log-probability.

The paper says that mixing is 6 times faster than von Mises-Fisher sampling. That depends on what is compared, so
this compares the best we know of each, drawing for a batch of 256 states, and reports ratios to mixing:

- jitted: the three inside one compiled loop, as in a training update; no dispatch is measured;
- NumPy: the three as plain vectorised code, as on a machine without JAX.

Von Mises-Fisher is Wood's method with its envelope in closed form (`vmf`). In NumPy it is measured with its
log-density too, whose Bessel function is the other thing that the paper avoids. The rejection loop of a batch
ends with its slowest row. Its concentration is matched to mixing's mean cosine.

All methods take turns within each round, in CPU time of one thread, so that other load on the machine does
not tell them apart; a ratio is the median over rounds, and its spread the quartiles.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from geoact.analysis import vmf
from geoact.analysis.timing import interleaved, ratio
from geoact.experiments.paper_numbers import paper_numbers
from geoact.report import style
from geoact.report.tables import Value, write_table

DIMS = (2, 3, 6, 17, 64, 256)
KAPPAS = (0.0, 1.0, 3.0)
BATCH = 256
STEPS = 64  # batches drawn by one compiled call


def run(out: Path, seed: int = 0, rounds: int = 15) -> list[Path]:
    """Measure, write the table and the figure; the files written."""
    rows: list[list[Value]] = []
    for dim in DIMS:
        jitted = _jitted_methods(dim, seed)
        plain = _numpy_methods(dim, seed)
        fast = interleaved(jitted, rounds)
        slow = interleaved(plain, rounds)
        for kappa in KAPPAS:
            concentration = matched_concentration(kappa, dim)
            rows.append(
                [
                    dim,
                    kappa,
                    concentration,
                    vmf.acceptance_rate(concentration, dim),
                    *ratio(fast, f"vmf {kappa}", "gac"),
                    *ratio(fast, "gaussian", "gac"),
                    1e9 * float(np.median(fast["gac"])) / (BATCH * STEPS),
                    *ratio(slow, f"vmf {kappa}", "gac"),
                    *ratio(slow, f"vmf+log {kappa}", "gac"),
                    *ratio(slow, "gaussian", "gac"),
                    1e9 * float(np.median(slow["gac"])) / BATCH,
                ]
            )
    columns = ["d", "kappa", "vMF concentration", "acceptance"]
    for way, names in (("jit", ("vMF", "tanh-Gaussian")), ("NumPy", ("vMF", "vMF + log f", "tanh-Gaussian"))):
        for name in names:
            columns += [f"{way}: {name}", f"{way}: {name}, quartiles"]
        columns.append(f"{way}: mixing, ns")
    claimed = paper_numbers()["complexity"]["speedup_over_vmf_rejection_sampling"]
    formats = {name: ".2f" for name in columns[4:] if "quartiles" not in name and not name.endswith("ns")}
    files = write_table(
        out / "sampling",
        "Cost of a sample, relative to geometric mixing",
        columns,
        rows,
        f"Ratios of CPU time to mixing's, one thread, batches of {BATCH}, median and quartiles of {rounds} rounds; "
        "the times in nanoseconds per sample are this machine's and only set the scale. tanh-Gaussian includes its "
        f"log-probability. The paper claims {claimed:g} for von Mises-Fisher.",
        {
            **formats,
            "kappa": ".0f",
            "acceptance": ".3f",
            "jit: mixing, ns": ".0f",
            "NumPy: mixing, ns": ".0f",
        },
    )
    with style.drawing():
        files += _figure(out, columns, rows, claimed)
    return files


def matched_concentration(kappa: float, dim: int) -> float:
    """The von Mises-Fisher concentration with the same mean cosine as mixing at `kappa`."""
    from geoact import sphere

    return vmf.concentration_for(float(sphere.mean_cosine_exact(kappa, dim)), dim)


def _jitted_methods(dim: int, seed: int) -> dict[str, Callable[[], object]]:
    """Each draws STEPS batches inside one compiled loop."""
    import jax
    import jax.numpy as jnp

    from geoact import sphere

    key, other = jax.random.split(jax.random.key(seed))
    direction = sphere.uniform(other, (BATCH,), dim)
    log_std = jnp.full((BATCH, dim), -1.0)
    keys = jax.random.split(key, STEPS)

    def loop(draw: Callable[..., Any], *inputs: Any) -> Callable[[], object]:
        @jax.jit
        def compiled(keys: Any, *inputs: Any) -> Any:
            def step(total: Any, key: Any) -> tuple[Any, None]:
                return total + draw(key, *inputs), None

            # The sum keeps the compiler from leaving out what is not used.
            return jax.lax.scan(step, jnp.zeros((BATCH, dim)), keys)[0]

        return lambda: jax.block_until_ready(compiled(keys, *inputs))

    def gac(key: Any, direction: Any, weight: Any) -> Any:
        return sphere.mix(direction, sphere.uniform(key, (BATCH,), dim), weight)

    def gaussian(key: Any, mean: Any, log_std: Any) -> Any:
        noise = jax.random.normal(key, mean.shape)
        action = jnp.tanh(mean + jnp.exp(log_std) * noise)
        log_p = -0.5 * noise**2 - log_std - 0.5 * jnp.log(2 * jnp.pi) - jnp.log(1 - action**2 + 1e-6)
        return action + jnp.sum(log_p, axis=-1, keepdims=True)

    methods = {
        "gac": loop(gac, direction, jnp.full((BATCH, 1), 0.73)),
        "gaussian": loop(gaussian, direction, log_std),
    }
    sampler = vmf.jitted_sampler(dim)
    for kappa in KAPPAS:
        concentration = jnp.full(BATCH, matched_concentration(kappa, dim))
        methods[f"vmf {kappa}"] = loop(sampler, direction, concentration)
    return methods


def _numpy_methods(dim: int, seed: int) -> dict[str, Callable[[], object]]:
    rng = np.random.default_rng(seed)
    direction = rng.standard_normal((BATCH, dim)).astype(np.float32)
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    weight = np.full((BATCH, 1), 0.73, np.float32)
    log_std = np.full((BATCH, dim), -1.0, np.float32)

    def gac() -> object:
        noise = rng.standard_normal((BATCH, dim), np.float32)
        noise /= np.sqrt(np.einsum("ij,ij->i", noise, noise))[:, None]
        v = weight * direction + (1 - weight) * noise
        return v / np.sqrt(np.einsum("ij,ij->i", v, v))[:, None]

    def gaussian() -> object:
        noise = rng.standard_normal((BATCH, dim), np.float32)
        action = np.tanh(direction + np.exp(log_std) * noise)
        log_p = -0.5 * noise**2 - log_std - 0.5 * np.log(2 * np.pi) - np.log(1 - action**2 + 1e-6)
        return action, log_p.sum(axis=-1)

    methods: dict[str, Callable[[], object]] = {"gac": gac, "gaussian": gaussian}
    mean = direction[0].astype(np.float64)
    mean /= np.linalg.norm(mean)
    for kappa in KAPPAS:
        concentration = matched_concentration(kappa, dim)

        def draw(concentration: float = concentration) -> object:
            return vmf.sample(rng, mean, concentration, BATCH)

        def draw_with_density(concentration: float = concentration) -> object:
            x, _ = vmf.sample(rng, mean, concentration, BATCH)
            # one normaliser per state, as a policy needs it
            return vmf.log_density(x, mean, np.full(BATCH, concentration), dim)

        methods[f"vmf {kappa}"] = draw
        methods[f"vmf+log {kappa}"] = draw_with_density
    return methods


def _figure(out: Path, columns: list[str], rows: list[list[Value]], claimed: float) -> list[Path]:
    figure = style.new_figure(8.6, 3.5)
    axes = figure.subplots(1, 2, sharey=True)
    for axis, way, title in zip(axes, ("jit", "NumPy"), ("compiled (JAX)", "NumPy")):
        for kappa, shade in zip(KAPPAS, (0.35, 0.65, 1.0)):
            at_kappa = [row for row in rows if row[1] == kappa]
            _line(axis, columns, at_kappa, f"{way}: vMF", rf"vMF, $\kappa$ = {kappa:g}", "vmf", "o-", shade)
        last = [row for row in rows if row[1] == KAPPAS[-1]]
        _line(axis, columns, last, f"{way}: tanh-Gaussian", "tanh-Gaussian, with log p", "sac", "s-", 1.0)
        if way == "NumPy":
            _line(
                axis, columns, last, "NumPy: vMF + log f", r"vMF with log f, $\kappa$ = 3", "ppo", "^-", 1.0
            )
        axis.axhline(1, color=style.METHOD_COLORS["gac"], lw=1.4, label="mixing")
        axis.axhline(claimed, color="k", ls="--", lw=0.9, label="paper's claim for vMF")
        axis.set(xscale="log", yscale="log", xlabel="dimension d", title=title)
        axis.set_xticks(DIMS, [str(dim) for dim in DIMS])
        axis.set_yticks([0.5, 1, 2, 5, 10, 20, 50], ["0.5", "1", "2", "5", "10", "20", "50"])
        axis.set_ylim(0.6, 70)
        axis.minorticks_off()
        axis.legend(fontsize=7)
    axes[0].set_ylabel("time per sample, relative to mixing")
    return style.save_figure(figure, out / "sampling")


def _line(
    axis: Any,
    columns: list[str],
    rows: list[list[Value]],
    column: str,
    label: str,
    method: str,
    marker: str,
    alpha: float,
) -> None:
    i = columns.index(column)
    dims, ratio = [row[0] for row in rows], np.array([row[i] for row in rows], float)
    low, high = np.array([[float(x) for x in str(row[i + 1]).split(" to ")] for row in rows]).T
    color = style.METHOD_COLORS[method]
    axis.plot(dims, ratio, marker, ms=3.5, color=color, alpha=alpha, label=label)
    axis.fill_between(dims, low, high, color=color, alpha=0.12, lw=0)
