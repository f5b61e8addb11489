"""The von Mises-Fisher distribution on `S^(d-1)`, done correctly, to compare the geometric policy with.

    f(x) = C exp(kappa <mu, x>),    C = kappa^nu / ((2 pi)^(d/2) I_nu(kappa)),    nu = d/2 - 1.

- Normaliser: `log I_nu` from its power series, its uniform (Debye) expansion or SciPy's scaled function, each
  where it is accurate; nothing overflows for kappa up to 1e8 and d up to several thousand.
- Entropy: `-log C - kappa A(kappa)`, `A = I_(d/2) / I_(d/2-1)` the mean cosine. For large kappa, `log I_nu` grows
  as `kappa - log(2 pi kappa)/2`, so the terms linear in kappa cancel and `-((d-1)/2) log kappa` is left. A
  formula that keeps one of the linear terms, as the paper's does, is wrong by as much as kappa itself.
- Sampling: Wood's rejection method (1994), as fast as we know how: the envelope's Beta variable in closed form, a
  uniform tangent, a reflection to the mean direction. The acceptance rate is reported beside it.

kappa here is the distribution's own concentration, in [0, infinity); it is not the policy's log ratio.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import gammaln, ive

Floats = NDArray[np.float64]


def log_bessel(order: float, x: ArrayLike) -> Floats:
    """`log I_order(x)` for order >= 0 and x > 0."""
    x = np.asarray(x, np.float64)
    return _log_scaled_bessel(order, x) + x


def _log_scaled_bessel(order: float, x: Floats) -> Floats:
    """`log I_order(x) - x`, in which the part that cancels in the mean and the entropy is left out."""
    small = x * x < order + 1.0  # the terms of the series then fall at least fourfold from one to the next
    quarter = np.where(small, 0.25 * x * x, 0.0)
    term, total = np.ones_like(x), np.ones_like(x)
    for k in range(1, 30):
        term = term * quarter / (k * (order + k))
        total = total + term
    series = order * np.log(0.5 * x) - gammaln(order + 1.0) + np.log(total) - x
    safe = np.where(small, order + 1.0, x)
    large = _debye(order, safe) if order >= 60.0 else np.log(ive(order, safe))
    return np.where(small, series, large)


def _debye(order: float, x: Floats) -> Floats:
    """The uniform expansion for large order (Abramowitz and Stegun 9.7.7), to the fourth power of 1/order."""
    z = x / order
    root = np.sqrt(1.0 + z * z)
    p = 1.0 / root
    scaled_eta = 1.0 / (root + z) + np.log(z / (1.0 + root))  # eta - z
    p2 = p * p
    u1 = p * (3.0 - 5.0 * p2) / 24.0
    u2 = p2 * (81.0 + p2 * (-462.0 + 385.0 * p2)) / 1152.0
    u3 = p * p2 * (30375.0 + p2 * (-369603.0 + p2 * (765765.0 - 425425.0 * p2))) / 414720.0
    inner = 349922430.0 + p2 * (-446185740.0 + 185910725.0 * p2)
    u4 = p2 * p2 * (4465125.0 + p2 * (-94121676.0 + p2 * inner)) / 39813120.0
    correction = np.log1p(u1 / order + u2 / order**2 + u3 / order**3 + u4 / order**4)
    return order * scaled_eta - 0.5 * np.log(2.0 * np.pi * order * root) + correction


def log_normalizer(kappa: ArrayLike, dim: int) -> Floats:
    """`log C(kappa)`; at kappa = 0, minus the log area of the sphere."""
    kappa = np.asarray(kappa, np.float64)
    order = 0.5 * dim - 1.0
    safe = np.where(kappa > 0.0, kappa, 1.0)
    general = order * np.log(safe) - 0.5 * dim * np.log(2.0 * np.pi) - log_bessel(order, safe)
    log_area = np.log(2.0) + 0.5 * dim * np.log(np.pi) - gammaln(0.5 * dim)
    return np.where(kappa > 0.0, general, -log_area)


def log_density(x: ArrayLike, mean: ArrayLike, kappa: ArrayLike, dim: int) -> Floats:
    """Log density at the unit vectors `x`, `[..., dim]`."""
    cosine = np.sum(np.asarray(x, np.float64) * np.asarray(mean, np.float64), axis=-1)
    return log_normalizer(kappa, dim) + np.asarray(kappa, np.float64) * cosine


def mean_cosine(kappa: ArrayLike, dim: int) -> Floats:
    """`A(kappa) = I_(d/2)(kappa) / I_(d/2-1)(kappa)`."""
    kappa = np.asarray(kappa, np.float64)
    safe = np.where(kappa > 0.0, kappa, 1.0)
    ratio = np.exp(_log_scaled_bessel(0.5 * dim, safe) - _log_scaled_bessel(0.5 * dim - 1.0, safe))
    return np.where(kappa > 0.0, ratio, 0.0)


def entropy(kappa: ArrayLike, dim: int) -> Floats:
    """Differential entropy on the sphere."""
    kappa = np.asarray(kappa, np.float64)
    order = 0.5 * dim - 1.0
    safe = np.where(kappa > 0.0, kappa, 1.0)
    scaled = _log_scaled_bessel(order, safe)
    one_minus_mean = -np.expm1(_log_scaled_bessel(order + 1.0, safe) - scaled)
    general = 0.5 * dim * np.log(2.0 * np.pi) - order * np.log(safe) + scaled + safe * one_minus_mean
    return np.where(kappa > 0.0, general, -log_normalizer(0.0, dim))


def concentration_for(cosine: float, dim: int) -> float:
    """The kappa whose mean cosine is the one asked for, in [0, 1)."""
    if not 0.0 <= cosine < 1.0:
        raise ValueError(
            f"the mean cosine is {cosine}, but a von Mises-Fisher distribution has one in [0, 1)"
        )
    if cosine == 0.0:
        return 0.0
    guess = cosine * (dim - cosine**2) / (1.0 - cosine**2)  # Banerjee's approximation, within a factor of two
    low, high = guess / 4.0, guess * 4.0
    return float(brentq(lambda k: float(mean_cosine(k, dim)) - cosine, low, high, xtol=1e-12 * guess))  # type: ignore[arg-type]


def sample(rng: np.random.Generator, mean: ArrayLike, kappa: float, count: int) -> tuple[Floats, float]:
    """`count` draws around the unit vector `mean`, `[count, dim]`, and the share of proposals accepted."""
    mean = np.asarray(mean, np.float64)
    dim = mean.size
    b, centre, bound = _envelope(kappa, dim)
    cosine = np.empty(count)
    filled = proposed = accepted = 0
    while filled < count:
        n = count - filled
        # A coordinate of a uniform point on the sphere, from its distance to a plane and the angle in it: the
        # symmetric Beta law that the envelope needs, in closed form (Ulrich 1984).
        radius = np.sqrt(1.0 - rng.random(n) ** (2.0 / (dim - 2))) if dim > 2 else 1.0
        beta = 0.5 + 0.5 * radius * np.cos(2.0 * np.pi * rng.random(n))
        w = (1.0 - (1.0 + b) * beta) / (1.0 - (1.0 - b) * beta)
        keep = kappa * w + (dim - 1) * np.log1p(-centre * w) - bound >= np.log(rng.random(n))
        good = w[keep]
        cosine[filled : filled + good.size] = good
        filled, proposed, accepted = filled + good.size, proposed + n, accepted + good.size
    tangent = rng.standard_normal((count, dim - 1))
    tangent /= np.linalg.norm(tangent, axis=1, keepdims=True)
    sine = np.sqrt(np.maximum(1.0 - cosine**2, 0.0))
    x = np.concatenate([cosine[:, None], sine[:, None] * tangent], axis=1)
    return _reflect(x, mean), accepted / proposed


def _envelope(kappa: float, dim: int) -> tuple[float, float, float]:
    """Wood's constants; b without the cancellation of `-2 kappa + sqrt(4 kappa^2 + (d-1)^2)`."""
    b = (dim - 1) / (2.0 * kappa + np.sqrt(4.0 * kappa**2 + (dim - 1) ** 2))
    centre = (1.0 - b) / (1.0 + b)
    return b, centre, kappa * centre + (dim - 1) * np.log1p(-(centre**2))


def _reflect(x: Floats, mean: Floats) -> Floats:
    """The reflection that takes the first axis to `mean`."""
    v = -mean
    v[0] += 1.0
    square = float(v @ v)
    return x if square < 1e-30 else x - np.outer(x @ v, 2.0 / square * v)


def acceptance_rate(kappa: float, dim: int) -> float:
    """The exact share of proposals that Wood's method accepts, by quadrature of target over envelope.

    With the proposal's own density g of the cosine, accepted with probability `exp(h(w) - h(centre))`,
    `h(w) = kappa w + (d-1) log(1 - centre w)`, the rate is the mean of that probability.
    """
    b, centre, bound = _envelope(kappa, dim)
    angle = (np.arange(2000) + 0.5) * (
        np.pi / 2000
    )  # beta = sin^2(angle / 2) has the density sin^(d-2) in it
    beta = np.sin(0.5 * angle) ** 2
    log_density_angle = (dim - 2) * np.log(np.sin(angle))
    mass = np.exp(log_density_angle - log_density_angle.max())
    w = (1.0 - (1.0 + b) * beta) / (1.0 - (1.0 - b) * beta)
    probability = np.exp(kappa * w + (dim - 1) * np.log1p(-centre * w) - bound)
    return float(np.sum(mass * probability) / np.sum(mass))


def jitted_sampler(dim: int) -> Callable[[Any, Any, Any], Any]:
    """Wood's method in JAX, for a batch with its own mean `[n, dim]` and kappa `[n]` in each row.

    A vectorised rejection goes on until the last row is accepted: this is what a batch of policy states costs.
    """
    import jax
    import jax.numpy as jnp

    from geoact.sphere import normalize, uniform

    def sampler(key: Any, mean: Any, kappa: Any) -> Any:
        b = (dim - 1) / (2.0 * kappa + jnp.sqrt(4.0 * kappa**2 + (dim - 1) ** 2))
        centre = (1.0 - b) / (1.0 + b)
        bound = kappa * centre + (dim - 1) * jnp.log1p(-(centre**2))
        tangent_key, loop_key = jax.random.split(key)

        def propose(carry: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
            key, w, done = carry
            key, uniform_key = jax.random.split(key)
            first, second, third = jax.random.uniform(uniform_key, (3, *kappa.shape))
            radius = jnp.sqrt(1.0 - first ** (2.0 / (dim - 2))) if dim > 2 else 1.0
            beta = 0.5 + 0.5 * radius * jnp.cos(2.0 * jnp.pi * second)
            proposal = (1.0 - (1.0 + b) * beta) / (1.0 - (1.0 - b) * beta)
            level = kappa * proposal + (dim - 1) * jnp.log1p(-centre * proposal) - bound
            accepted = level >= jnp.log(third)
            return key, jnp.where(accepted & ~done, proposal, w), done | accepted

        start = (loop_key, jnp.zeros_like(kappa), jnp.zeros(kappa.shape, bool))
        _, w, _ = jax.lax.while_loop(lambda carry: ~jnp.all(carry[2]), propose, start)
        # A uniform direction orthogonal to the mean: project, renormalise.
        noise = uniform(tangent_key, kappa.shape, dim)
        tangent = normalize(noise - jnp.sum(noise * mean, axis=-1, keepdims=True) * mean)
        sine = jnp.sqrt(jnp.maximum(1.0 - w * w, 0.0))
        # Once more, because in float32 the projection leaves a tangent that is not quite orthogonal.
        return normalize(w[:, None] * mean + sine[:, None] * tangent)

    return jax.jit(sampler)
