"""How kappa concentrates the mixed direction: the paper's Table A.1 and Figure A.1, beside the exact values.

The paper samples 500 directions per kappa and reports the mean cosine and the standard deviation of the angle.
It does not say in which dimension; its numbers fit d = 3 and no other. Here: the same measurement with the
shipped functions in d = 3, 2, 6 and 17, the exact expectations, and the paper's approximation
`w / sqrt(w^2 + (1-w)^2)` for the mean cosine, which is the limit d -> infinity.

And the size of a coordinate, from which the paper argues for r = 2.5: it takes `1 / sqrt(d)` for `E|mu_i|`, which is
the root mean square; the mean is smaller, `Gamma(d/2) / (sqrt(pi) Gamma((d+1)/2))`, or about `0.8 / sqrt(d)`.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoact.experiments.paper_numbers import paper_numbers
from geoact.report import style
from geoact.report.tables import Value, write_table

DIMS = (3, 2, 6, 17)
SAMPLES = 500
ACTION_DIMS = (3, 5, 6, 7, 8, 12, 17)
"""Of the paper's twelve tasks."""


def angle_spread(kappa: ArrayLike, dim: int) -> NDArray[np.float64]:
    """Exact standard deviation of the angle between direction and mixture, in degrees.

    The angle is `atan2(sin(phi), t + cos(phi))`, `phi` the noise's angle, whose density is ~ `sin(phi)^(d-2)`.
    """
    # Trapezoids on the periodic continuation, half a step off the ends, where the angle may jump.
    phi = (np.arange(4000) + 0.5) * (np.pi / 4000)
    weight = np.sin(phi) ** (dim - 2)
    weight /= weight.sum()
    angle = np.arctan2(np.sin(phi), np.exp(np.asarray(kappa, np.float64))[..., None] + np.cos(phi))
    mean = angle @ weight
    return np.degrees(np.sqrt((angle - mean[..., None]) ** 2 @ weight))


def mean_coordinate(dim: int) -> float:
    """`E|mu_i|` of a uniform direction on `S^(dim-1)`."""
    return math.exp(math.lgamma(dim / 2) - math.lgamma((dim + 1) / 2)) / math.sqrt(math.pi)


def draw(seed: int, kappa: float, dim: int, count: int) -> NDArray[np.float32]:
    """Mixed directions around the first axis, by the functions that the policy uses, `[count, dim]`."""
    import jax
    import jax.numpy as jnp

    from geoact import sphere

    direction = jnp.broadcast_to(jnp.eye(dim)[0], (count, dim))
    noise = sphere.uniform(jax.random.key(seed), (count,), dim)
    return np.asarray(sphere.mix(direction, noise, jnp.full((count, 1), jax.nn.sigmoid(kappa))))


def run(out: Path, seed: int = 0) -> list[Path]:
    """Write the table, the curves and the spheres; the files written."""
    from geoact import sphere

    published = {row[0]: row for row in paper_numbers()["tableA1_concentration"]["rows"]}
    rows: list[list[Value]] = []
    points: dict[float, NDArray[np.float32]] = {}
    for dim in DIMS:
        for i, kappa in enumerate(published):
            u = draw(seed * 1000 + i, kappa, dim, SAMPLES)
            if dim == 3:
                points[kappa] = u
            cosine = np.clip(u[:, 0].astype(np.float64), -1.0, 1.0)
            angle = np.arccos(cosine)
            w = 1.0 / (1.0 + np.exp(-kappa))
            rows.append(
                [
                    dim,
                    kappa,
                    w,
                    published[kappa][2] if dim == 3 else None,
                    float(cosine.mean()),
                    float(cosine.std() / np.sqrt(SAMPLES)),
                    float(sphere.mean_cosine_exact(kappa, dim)),
                    w / float(np.hypot(w, 1.0 - w)),
                    published[kappa][3] if dim == 3 else None,
                    float(np.degrees(angle.std())),
                    float(angle_spread(kappa, dim)),
                    float(np.degrees(np.arcsin(np.exp(-kappa)))) if kappa > 0 else None,
                ]
            )
    stated = np.array(list(published.values()))
    correlation = float(np.corrcoef(stated[:, 1], stated[:, 2])[0, 1])
    columns = [
        "d",
        "kappa",
        "w",
        "cosine, paper",
        "cosine, measured",
        "standard error",
        "cosine, exact",
        "cosine, approximation",
        "angle sd, paper",
        "angle sd, measured",
        "angle sd, exact",
        "largest angle",
    ]
    formats = {
        name: ".3f" if name in ("w", "standard error") or "cosine" in name else ".1f" for name in columns[1:]
    }
    files = write_table(
        out / "concentration",
        "Concentration: mean cosine and spread of the angle",
        columns,
        rows,
        f"Measured: {SAMPLES} samples per row, seed {seed}. Exact: by quadrature. Approximation: "
        "w / sqrt(w^2 + (1-w)^2), the paper's, exact only for d -> infinity. Angles in degrees; the largest angle "
        "is the rim of the support cone, arcsin(exp(-kappa)), and exists for kappa > 0 only. The paper gives no "
        "dimension; its numbers are set beside d = 3, which they fit. It gives 0.95 as the correlation of w and the "
        f"measured cosine; its own rows have {correlation:.3f}.",
        formats,
    )
    files += write_table(
        out / "coordinates",
        "The mean size of a coordinate of a uniform direction",
        ["d", "E|mu_i|, exact", "1 / sqrt(d), the paper's", "2.5 E|mu_i|"],
        [[d, mean_coordinate(d), d**-0.5, 2.5 * mean_coordinate(d)] for d in ACTION_DIMS],
        "The paper takes 1 / sqrt(d), the root mean square, for the mean, and expects sizes of 0.6 to 0.9 at r = 2.5.",
        {"E|mu_i|, exact": ".4f", "1 / sqrt(d), the paper's": ".4f", "2.5 E|mu_i|": ".3f"},
    )
    with style.drawing():
        files += _curves(out, rows, list(published.values()))
        files += _spheres(out, points)
    return files


def _curves(out: Path, rows: list[list[Value]], published: list[list[float]]) -> list[Path]:
    from geoact import sphere

    kappa = np.linspace(-4, 4, 321)
    t = np.exp(kappa)
    figure = style.new_figure(8.6, 3.4)
    left, right = figure.subplots(1, 2)
    for color, dim in zip(style.COLORS, sorted(DIMS)):
        left.plot(kappa, sphere.mean_cosine_exact(kappa, dim), color=color, label=f"exact, d = {dim}")
        right.plot(kappa, angle_spread(kappa, dim), color=color, label=f"exact, d = {dim}")
        measured = np.array([[row[1], row[4], row[9]] for row in rows if row[0] == dim], float)
        left.plot(measured[:, 0], measured[:, 1], "o", color=color, ms=3.5)
        right.plot(measured[:, 0], measured[:, 2], "o", color=color, ms=3.5)
    left.plot(kappa, t / np.sqrt(1 + t**2), "k--", lw=1, label="paper's approximation")
    table = np.array(published)
    for axis, column in ((left, 2), (right, 3)):
        axis.plot(table[:, 0], table[:, column], "kx", ms=6, label="paper's Table A.1")
        axis.set_xlabel(r"$\kappa$")
        axis.legend()
    left.set(ylabel="mean cosine to the direction", title="Mean cosine", ylim=(-0.02, 1.02))
    right.set(ylabel="degrees", title="Standard deviation of the angle")
    figure.supxlabel(f"dots: {SAMPLES} samples", fontsize=8)
    return style.save_figure(figure, out / "concentration")


def _spheres(out: Path, points: dict[float, NDArray[np.float32]]) -> list[Path]:
    figure = style.new_figure(9.0, 5.8)
    longitude, latitude = np.mgrid[0 : 2 * np.pi : 25j, 0 : np.pi : 13j]
    grid = (np.sin(latitude) * np.cos(longitude), np.sin(latitude) * np.sin(longitude), np.cos(latitude))
    tone, axes = None, []
    for i, (kappa, u) in enumerate(sorted(points.items())):
        # Any, because Matplotlib's stubs have the three-dimensional arguments wrong
        axis: Any = figure.add_subplot(2, 3, i + 1, projection="3d", computed_zorder=False)
        axes.append(axis)
        axis.plot_wireframe(*grid, color="0.8", lw=0.4, zorder=0)
        # the direction is the first coordinate: draw it upwards
        tone = axis.scatter(
            *(u[:, 1], u[:, 2], u[:, 0]),
            c=u[:, 0],
            cmap="viridis",
            vmin=-1,
            vmax=1,
            s=4,
            lw=0,
            depthshade=False,
        )
        axis.plot([0, 0], [0, 0], [0, 1.3], color="k", lw=1.2, zorder=0.5)
        if kappa > 0:
            rim, around = np.exp(-kappa), np.linspace(0, 2 * np.pi, 100)
            height = np.full(100, np.sqrt(1 - rim**2))
            axis.plot(
                rim * np.cos(around), rim * np.sin(around), height, color=style.COLORS[1], lw=1.4, zorder=5
            )
        axis.set_title(rf"$\kappa$ = {kappa:g}, $w$ = {1 / (1 + np.exp(-kappa)):.3f}", y=1.06)
        axis.set_axis_off()
        axis.set(xlim=(-1, 1), ylim=(-1, 1), zlim=(-1, 1))
        axis.set_box_aspect((1, 1, 1), zoom=1.6)
        axis.view_init(elev=25, azim=-60)
    assert tone is not None
    figure.colorbar(tone, ax=axes, shrink=0.6, label="cosine to the direction (black)")
    figure.supxlabel("500 samples each, d = 3; orange: the rim of the support cone", fontsize=8)
    return style.save_figure(figure, out / "spheres")
