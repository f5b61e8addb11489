"""The exact entropy of the mixed direction, against what stands in for it.

The paper's exploration bonus is `-kappa`; it calls the entropy intractable. Here both are drawn: the exact
`H(kappa, d)` and its derivative, `-kappa` (derivative -1 everywhere), and the entropy of the von Mises-Fisher
distribution with the same mean cosine, which no distribution with that mean cosine exceeds. The gap
between the two stays bounded as kappa grows. The last panel shows the von Mises-Fisher entropy over its own
concentration, with the right asymptote, `-((d-1)/2) log kappa` and a constant.
"""

from pathlib import Path

import numpy as np

from geoact.analysis import vmf
from geoact.report import style
from geoact.report.tables import Value, write_table

DIMS = (2, 3, 6, 17)
KAPPAS = (-4.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 4.0, 6.0)


def derivative(kappa: np.ndarray, dim: int) -> np.ndarray:
    """`dH/dkappa` as training sees it: the derivative of the shipped function."""
    import jax
    import jax.numpy as jnp

    from geoact import sphere

    gradient = jax.jit(jax.vmap(jax.grad(lambda k: sphere.entropy(k, dim))))
    return np.asarray(gradient(jnp.asarray(kappa, jnp.float32)), np.float64)


def matched_vmf(kappa: float, dim: int) -> tuple[float, float]:
    """Concentration and entropy of the von Mises-Fisher distribution with the same mean cosine."""
    from geoact import sphere

    matched = vmf.concentration_for(float(sphere.mean_cosine_exact(kappa, dim)), dim)
    return matched, float(vmf.entropy(matched, dim))


def run(out: Path, seed: int = 0) -> list[Path]:
    """Write the table and the figure; the files written. Nothing here is random: `seed` changes nothing."""
    from geoact import sphere

    rows: list[list[Value]] = []
    for dim in DIMS:
        derivatives = derivative(np.array(KAPPAS), dim)
        for kappa, change in zip(KAPPAS, derivatives):
            h = float(sphere.entropy_exact(kappa, dim))
            concentration, h_vmf = matched_vmf(kappa, dim)
            # The derivative is infinite at kappa = 0 in d = 2 and 3; the shipped function's finite value says nothing.
            shown = None if kappa == 0.0 and dim <= 3 else float(change)
            cosine = float(sphere.mean_cosine_exact(kappa, dim))
            rows.append([dim, kappa, cosine, h, shown, -kappa, concentration, h_vmf, h_vmf - h])
    columns = [
        "d",
        "kappa",
        "mean cosine",
        "H",
        "dH/dkappa",
        "-kappa",
        "vMF concentration",
        "vMF entropy",
        "gap",
    ]
    formats = dict.fromkeys(columns[2:], ".4f") | {
        "kappa": ".1f",
        "-kappa": ".1f",
        "vMF concentration": ".4g",
    }
    files = write_table(
        out / "entropy",
        "Exact entropy of the mixed direction",
        columns,
        rows,
        "H by quadrature; its derivative as training uses it (left out where it is infinite: kappa = 0 in d = 2 and "
        "3). vMF: the von Mises-Fisher distribution with the same mean cosine, which has the largest entropy "
        "of all with that mean cosine; gap: by how much it is larger than H, in nats.",
        formats,
    )
    with style.drawing():
        files += _figure(out)
    return files


def _figure(out: Path) -> list[Path]:
    from geoact import sphere

    figure = style.new_figure(10.4, 3.6)
    values, derivatives, fisher = figure.subplots(1, 3)
    kappa = np.unique(np.concatenate([np.linspace(-5, 5, 201), np.linspace(-0.2, 0.2, 81)]))
    coarse = np.linspace(-3, 3, 61)
    concentration = np.geomspace(1e-2, 1e5, 200)
    for color, dim in zip(style.COLORS, DIMS):
        top = sphere.log_area(dim)
        scale = dim - 1
        label = f"d = {dim}"
        values.plot(kappa, sphere.entropy_exact(kappa, dim) - top, color=color, label=label)
        matched = np.array([matched_vmf(float(k), dim)[1] for k in coarse])
        values.plot(coarse, matched - top, ":", color=color, lw=1.4)
        off = kappa[np.abs(kappa) > 1e-9]  # at 0 itself it is infinite in d = 2 and 3
        derivatives.plot(off, derivative(off, dim) / scale, color=color, label=label)
        fisher.plot(concentration, (vmf.entropy(concentration, dim) - top) / scale, color=color, label=label)
        line = (0.5 * scale * (1 + np.log(2 * np.pi / concentration)) - top) / scale
        fisher.plot(concentration, line, "--", color=color, lw=0.9)
    values.plot(kappa, -kappa, "k--", lw=1, label=r"$-\kappa$")
    values.plot([], [], ":", color="0.3", lw=1.4, label="vMF, same mean cosine")
    values.set(
        xlim=(-3, 3), ylim=(-20, 3.5), xlabel=r"$\kappa$", ylabel=r"$H - \log A$, nats", title="Entropy"
    )
    derivatives.axhline(-1, color="k", ls="--", lw=1, label="asymptote")
    derivatives.set(
        ylim=(-3, 0.15),
        xlabel=r"$\kappa$",
        ylabel=r"$dH/d\kappa\,/\,(d-1)$",
        title="Derivative of the entropy",
    )
    fisher.plot([], [], "--", color="0.3", lw=0.9, label=r"$\frac{d-1}{2}(1 + \log 2\pi - \log\kappa)$")
    fisher.set(
        xscale="log",
        ylim=(-5.5, 0.6),
        xlabel=r"vMF's own $\kappa$",
        ylabel=r"$(H - \log A)\,/\,(d-1)$, nats",
        title="von Mises-Fisher entropy",
    )
    for axis in (values, derivatives, fisher):
        axis.legend(loc="lower left")
    derivatives.legend(loc="lower right")
    return style.save_figure(figure, out / "entropy")
