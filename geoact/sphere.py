"""The geometry of a policy that acts by direction and concentration, exactly.

A direction `mu` on the unit sphere `S^(d-1)` is mixed with uniform noise `xi` on the same sphere,

    u = normalize(w mu + (1 - w) xi),    w = sigmoid(kappa),

so that `t = w / (1 - w) = exp(kappa)`: kappa is the log signal-to-noise ratio. With `z = <xi, mu>`, whose
density on [-1, 1] is proportional to `(1 - z^2)^((d-3)/2)`, `R = |t mu + xi| = sqrt(1 + t^2 + 2 t z)` and the
area `A = 2 pi^(d/2) / Gamma(d/2)` of the sphere:

- cosine       `c = <u, mu> = (t + z) / R`, and `E[c] = d/dt E[R]`, a hypergeometric function (`mean_cosine`);
- density      `f(u) = (1/A) sum over the positive roots rho of rho^(d-1) / sqrt(1 - t^2 (1 - c^2))`, with
               `rho = t c +- sqrt(1 - t^2 (1 - c^2))`. For `t > 1` the support is the cone
               `sin(theta) <= 1/t` and both roots count (`log_density`);
- entropy      `H = -E[log f(u)]`, falling from `log A` with slope 0 to a line of slope `-(d-1)` (`entropy`).

`dim` is always the dimension `d >= 2` of the surrounding space: the action's dimension plus its slack. It is
a Python integer: each has its own table, made once by float64 quadrature and interpolated inside `jit`.

Deliberate choices:

- `normalize` of a vector shorter than 1e-12 is zero, with zero gradient: there is no direction to speak of,
  and an infinite gradient would poison a whole batch.
- At `kappa = 0` the slope of H is infinite in d = 2 (a vertical tangent) and d = 3 (logarithmically), and so
  is the slope of `mean_cosine` in d = 2. The table is exact at its nodes, which lie 2e-4 apart there, and so
  gives a finite slope: about -107 for H in d = 2.
- Functions keep the dtype they are given: float32 in training, float64 where a test asks for it.
"""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike
from numpy.typing import NDArray
from scipy.special import digamma, gammaln

Floats = NDArray[np.float64]

_SMALLEST_NORM = 1e-12
# The tables' nodes are uniform in x = asinh(kappa / _STRETCH): fine around kappa = 0, where H bends sharply,
# coarse where it is nearly straight, and found without a search.
_STRETCH = 0.02
_KAPPA_MAX = 10.0  # beyond it the asymptotes are exact to d exp(-20), below float32's resolution
_INTERVALS = 1200  # even, so that kappa = 0 is a node
_X_MAX = float(np.arcsinh(_KAPPA_MAX / _STRETCH))


def normalize(v: Array) -> Array:
    """`v / |v|` along the last axis; zero, with zero gradient, where `|v| < 1e-12`."""
    square = jnp.sum(v * v, axis=-1, keepdims=True)
    is_direction = square > _SMALLEST_NORM**2
    # The inner `where` keeps the square root away from 0: its infinite gradient would survive the outer one.
    norm = jnp.sqrt(jnp.where(is_direction, square, 1.0))
    return jnp.where(is_direction, v / norm, 0.0)


def uniform(key: Array, shape: tuple[int, ...], dim: int) -> Array:
    """Uniform points on `S^(dim-1)`: normalised Gaussian vectors, `[*shape, dim]`."""
    return normalize(jax.random.normal(key, (*shape, dim)))


def mix(direction: Array, noise: Array, weight: Array, normalized: bool = True) -> Array:
    """`normalize(w mu + (1 - w) xi)`; without `normalized`, the mixture itself. `weight` is `[..., 1]`."""
    mixture = weight * direction + (1.0 - weight) * noise
    return normalize(mixture) if normalized else mixture


def log_area(dim: int) -> float:
    """Log of the area of `S^(dim-1)`: the entropy of the uniform distribution on it."""
    return float(np.log(2.0) + 0.5 * dim * np.log(np.pi) - gammaln(0.5 * dim))


def log_density(cosine: ArrayLike, kappa: ArrayLike, dim: int) -> Array:
    """Log density of the mixed direction with respect to area on `S^(dim-1)`, -inf outside the support.

    In float32 a cosine resolves angles down to about 3e-4, so beyond kappa of about 7, where the whole cone
    is of that size, ask in float64.
    """
    _check_dim(dim)
    c, kappa = jnp.broadcast_arrays(jnp.asarray(cosine), jnp.asarray(kappa))
    wide = kappa < 0.0  # t < 1: the support is the whole sphere and there is one positive root
    # Everything in logarithms of t, because t^2 overflows float32 from kappa = 44 on.
    sin2 = (1.0 - c) * (1.0 + c)
    log_ratio = 2.0 * kappa + jnp.log(jnp.maximum(sin2, jnp.finfo(c.dtype).tiny))  # t^2 sin^2(theta)
    inside = (jnp.abs(c) <= 1.0) & (log_ratio < 0.0) & (wide | (c > 0.0))
    root2 = -jnp.expm1(jnp.where(inside, log_ratio, -1.0))
    root = jnp.sqrt(root2)
    log_gap = jnp.log(jnp.maximum(-jnp.expm1(-2.0 * jnp.abs(kappa)), jnp.finfo(c.dtype).tiny))

    # t >= 1: both roots; the smaller one as (t^2 - 1) / larger, free of cancellation.
    kappa_narrow = jnp.where(wide, 1.0, kappa)
    c_narrow = jnp.where(inside & ~wide, c, 1.0)
    log_large = kappa_narrow + jnp.log(c_narrow + jnp.exp(-kappa_narrow) * root)
    log_small = 2.0 * kappa_narrow + log_gap - log_large
    log_narrow = jnp.logaddexp((dim - 1) * log_large, (dim - 1) * log_small)

    # t < 1: t c + root, or for c < 0 (1 - t^2) / (root - t c).
    tc = jnp.exp(jnp.where(wide, kappa, 0.0)) * c
    log_sum = jnp.log(jnp.where(inside & wide, jnp.abs(tc) + root, 1.0))
    log_wide = (dim - 1) * jnp.where(tc >= 0.0, log_sum, log_gap - log_sum)

    log_roots = jnp.where(wide, log_wide, log_narrow)
    return jnp.where(inside, log_roots - 0.5 * jnp.log(root2) - log_area(dim), -jnp.inf)


def mean_cosine(kappa: ArrayLike, dim: int) -> Array:
    """`E[<u, mu>]`: exact at the nodes of a table, interpolated between them, with the exact tails."""
    _check_dim(dim)
    kappa = jnp.asarray(kappa)
    low, high = _tails(kappa)
    share = (dim - 1) / dim
    inner = _interpolate(kappa, _tables(dim)[0])
    outer = jnp.where(kappa < 0.0, share * jnp.exp(low), 1.0 - 0.5 * share * jnp.exp(-2.0 * high))
    return jnp.where(jnp.abs(kappa) < _KAPPA_MAX, inner, outer)


def entropy(kappa: ArrayLike, dim: int) -> Array:
    """Differential entropy `H(kappa, dim)` of the mixed direction on `S^(dim-1)`, for use inside `jit`.

    Tails: `log A - (d-1)^2/(2d) t^2` for small t, `log(A/2) + E[log|z|] - (d-1) kappa` for large t.
    """
    _check_dim(dim)
    kappa = jnp.asarray(kappa)
    low, high = _tails(kappa)
    inner = _interpolate(kappa, _tables(dim)[1])
    wide = log_area(dim) - ((dim - 1) ** 2 / (2 * dim)) * jnp.exp(2.0 * low)
    narrow = _narrow_constant(dim) - (dim - 1) * high
    return jnp.where(jnp.abs(kappa) < _KAPPA_MAX, inner, jnp.where(kappa < 0.0, wide, narrow))


def mean_cosine_exact(kappa: ArrayLike, dim: int) -> Floats:
    """`E[<u, mu>]` by quadrature, float64 NumPy, without table or interpolation; |kappa| up to 300."""
    return _quadrature(kappa, dim)[0]


def entropy_exact(kappa: ArrayLike, dim: int) -> Floats:
    """`H(kappa, dim)` by quadrature, float64 NumPy, without table or interpolation; |kappa| up to 300."""
    return _quadrature(kappa, dim)[1]


def _quadrature(kappa: ArrayLike, dim: int) -> tuple[Floats, Floats]:
    """Mean cosine and entropy.

    For `t <= 1` over the noise's angle `s` from `-mu`: `H = log A - E[d log R - log(1 + t z)]`.
    For `t > 1` over the angle `s` given by `sin(theta) = cos(s) / t`, which moves the density's singularity
    at the rim of the cone (`z = -1/t`, between the two roots) to the fixed end point `s = 0`. There
    `R+- = q +- sin(s)`, `q = sqrt(t^2 - 1 + sin(s)^2)`, and the measure of the noise is
    `(cos(s)/t)^(d-2) R+-^(d-1) / q ds`, over `B`, the integral of `sin^(d-2)` over (0, pi).
    Both ends are reached by nodes that crowd double-exponentially, so that the logarithm, and the near
    singularity of width `sqrt(|1 - t|)`, cost nothing.
    """
    _check_dim(dim)
    kappa = np.asarray(kappa, np.float64)
    flat = kappa.reshape(-1)
    mean, h = np.empty_like(flat), np.empty_like(flat)
    for part, integrate in ((flat <= 0.0, _quadrature_wide), (flat > 0.0, _quadrature_narrow)):
        mean[part], h[part] = integrate(flat[part, None], dim)
    return mean.reshape(kappa.shape), h.reshape(kappa.shape)


def _quadrature_wide(kappa: Floats, dim: int) -> tuple[Floats, Floats]:
    s, ds = _double_exponential_nodes(np.pi, dim)
    t, gap = np.exp(kappa), -np.expm1(kappa)
    versine = 2.0 * np.sin(0.5 * s) ** 2  # 1 + z
    square = gap**2 + 2.0 * t * versine  # R^2
    # sin(s) near pi through pi - s, mirrored, because the nodes there are resolved by their distance to pi.
    measure = np.exp((dim - 2) * np.log(np.sin(np.minimum(s, s[::-1]))) - _log_beta(dim)) * ds
    mean = np.sum((versine - gap) / np.sqrt(square) * measure, axis=1)
    h = log_area(dim) - np.sum((0.5 * dim * np.log(square) - np.log(gap + t * versine)) * measure, axis=1)
    return mean, h


def _quadrature_narrow(kappa: Floats, dim: int) -> tuple[Floats, Floats]:
    s, ds = _double_exponential_nodes(0.5 * np.pi, dim)
    sin, log_cos = np.sin(s), np.log(np.sin(s[::-1]))
    gap = -np.expm1(-2.0 * kappa)
    # q and R+- in units of t; q is then the cosine of theta.
    q = np.sqrt(gap + np.exp(-2.0 * kappa) * sin**2)
    log_large = np.log(q + np.exp(-kappa) * sin)
    log_small = np.log(gap) - log_large
    log_roots = np.logaddexp((dim - 1) * log_large, (dim - 1) * log_small)
    measure = np.exp((dim - 2) * log_cos + log_roots - _log_beta(dim)) / q * ds
    mean = np.sum(q * measure, axis=1)
    h = log_area(dim) - np.sum(((dim - 1) * kappa + log_roots - np.log(sin)) * measure, axis=1)
    return mean, h


def _double_exponential_nodes(length: float, dim: int) -> tuple[Floats, Floats]:
    """Nodes and weights on (0, length), crowding at both ends (tanh-sinh); a peak is 1/sqrt(dim) wide."""
    half = 120 + int(8 * np.sqrt(dim))
    y = np.linspace(-3.4, 3.4, 2 * half + 1)
    exponent = np.pi * np.sinh(y)
    nodes = length / (1.0 + np.exp(-exponent))
    weights = length * np.pi * np.cosh(y) / (4.0 * np.cosh(0.5 * exponent) ** 2) * (y[1] - y[0])
    return nodes, weights


def _log_beta(dim: int) -> float:
    """Log of the integral of `sin^(d-2)` over (0, pi)."""
    return float(0.5 * np.log(np.pi) + gammaln(0.5 * (dim - 1)) - gammaln(0.5 * dim))


def _narrow_constant(dim: int) -> float:
    """`log(A/2) + E[log|z|]`: H + (d-1) kappa for kappa -> infinity."""
    return float(log_area(dim) - np.log(2.0) + 0.5 * (digamma(0.5) - digamma(0.5 * dim)))


def _nodes() -> Floats:
    x = np.linspace(-_X_MAX, _X_MAX, _INTERVALS + 1)
    x[_INTERVALS // 2] = 0.0
    return x


@cache
def _tables(dim: int) -> tuple[Floats, Floats]:
    x = _nodes()
    mean, h = _quadrature(_STRETCH * np.sinh(x), dim)
    return _coefficients(x, mean), _coefficients(x, h)


def _coefficients(x: Floats, values: Floats) -> Floats:
    """Cubic coefficients per interval, `[_INTERVALS, 4]`, highest power first, in units of the interval.

    Coefficients rather than values and slopes, because differences of neighbouring values, taken in float32,
    would lose the slope.
    """
    from scipy.interpolate import CubicSpline  # half a second, and most runs need no table

    spline = CubicSpline(x, values)
    return (spline.c * (x[1] - x[0]) ** np.arange(3, -1, -1)[:, None]).T.copy()


def _interpolate(kappa: Array, table: Floats) -> Array:
    x = jnp.arcsinh(jnp.clip(kappa, -_KAPPA_MAX, _KAPPA_MAX) / _STRETCH)
    position = (x + _X_MAX) * (_INTERVALS / (2.0 * _X_MAX))
    interval = jnp.clip(jnp.floor(position), 0.0, _INTERVALS - 1.0)
    s = position - jax.lax.stop_gradient(interval)
    a, b, c, d = jnp.moveaxis(jnp.asarray(table, kappa.dtype)[interval.astype(jnp.int32)], -1, 0)
    return ((a * s + b) * s + c) * s + d


def _tails(kappa: Array) -> tuple[Array, Array]:
    """kappa held to the left and to the right of the table, so that the unused branch stays finite."""
    # `where`, not `minimum`: at a tie, minimum passes on only half of the gradient.
    low = jnp.where(kappa <= -_KAPPA_MAX, kappa, -_KAPPA_MAX)
    high = jnp.where(kappa >= _KAPPA_MAX, kappa, _KAPPA_MAX)
    return low, high


def _check_dim(dim: int) -> None:
    if dim < 2:
        raise ValueError(
            f"dim is {dim}, but the sphere needs dim >= 2: with one action dimension, add a slack coordinate"
        )
