"""The von Mises-Fisher distribution against SciPy's, and against quadrature where SciPy's fails."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln, ive

from geoact.analysis import vmf

NODES = np.polynomial.legendre.leggauss(400)


def axis(dim: int) -> np.ndarray:
    v = np.arange(1.0, dim + 1.0)
    return v / np.linalg.norm(v)


def cosine_law(kappa: float, dim: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Cosines, their probabilities, and the log of the integral of exp(kappa c) over the sphere."""
    x, weight = NODES
    angle = np.pi / 2 * (x + 1)
    log_weight = np.log(weight * np.pi / 2) + (dim - 2) * np.log(np.sin(angle)) + kappa * np.cos(angle)
    top = log_weight.max()
    mass = np.exp(log_weight - top)
    log_ring = np.log(2) + (dim - 1) / 2 * np.log(np.pi) - float(gammaln((dim - 1) / 2))
    return np.cos(angle), mass / mass.sum(), float(top + np.log(mass.sum()) + log_ring)


def same_law(a: np.ndarray, b: np.ndarray) -> bool:
    _, p = stats.ks_2samp(a, b)
    return bool(np.asarray(p) > 1e-3)


@pytest.mark.parametrize("order", [0.0, 0.5, 2.0, 7.5, 59.5, 60.0, 100.0])
def test_log_bessel_agrees_with_scipy_where_scipy_can(order):
    x = np.geomspace(1e-3, 1e5, 200)
    scaled = ive(order, x)
    can = scaled > 1e-280
    np.testing.assert_allclose(
        vmf.log_bessel(order, x)[can], (np.log(scaled[can]) + x[can]), rtol=1e-11, atol=1e-11
    )
    assert can.sum() > 100


@pytest.mark.parametrize("dim", [2, 3, 6, 17, 64, 512])
@pytest.mark.parametrize("kappa", [1e-3, 1.0, 30.0, 1000.0])
def test_normalizer_mean_and_entropy_against_quadrature(dim, kappa):
    cosine, p, log_integral = cosine_law(kappa, dim)
    assert float(vmf.log_normalizer(kappa, dim)) == pytest.approx(-log_integral, rel=1e-9, abs=1e-9)
    assert float(vmf.mean_cosine(kappa, dim)) == pytest.approx(float(p @ cosine), rel=1e-8, abs=1e-12)
    expected = log_integral - kappa * float(p @ cosine)
    assert float(vmf.entropy(kappa, dim)) == pytest.approx(expected, rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("dim", [2, 3, 6, 17])
@pytest.mark.parametrize("kappa", [0.5, 5.0, 100.0])
def test_density_and_entropy_against_scipy(dim, kappa):
    reference = stats.vonmises_fisher(axis(dim), kappa)
    x = np.random.default_rng(0).standard_normal((20, dim))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    np.testing.assert_allclose(vmf.log_density(x, axis(dim), kappa, dim), reference.logpdf(x), rtol=1e-9)
    assert float(vmf.entropy(kappa, dim)) == pytest.approx(float(reference.entropy()), rel=1e-8)


@pytest.mark.parametrize("dim", [2, 3, 17, 512])
def test_nothing_overflows(dim):
    kappa = np.concatenate([[0.0], np.geomspace(1e-12, 1e8, 300)])
    for function in (vmf.log_normalizer, vmf.mean_cosine, vmf.entropy):
        assert np.isfinite(function(kappa, dim)).all()
    assert np.all(np.diff(vmf.mean_cosine(kappa, dim)) > -1e-12)


@pytest.mark.parametrize("dim", [2, 3, 6, 17])
def test_entropy_falls_as_half_d_minus_one_log_kappa(dim):
    """The linear terms cancel: per e-fold of kappa the entropy falls by (d-1)/2, not by a multiple of kappa."""
    kappa = np.exp(np.array([12.0, 13.0]))
    fall = vmf.entropy(kappa, dim)
    assert fall[0] - fall[1] == pytest.approx((dim - 1) / 2, rel=1e-4)


@pytest.mark.parametrize("dim", [2, 3, 17, 256])
def test_concentration_for_inverts_the_mean_cosine(dim):
    for cosine in (0.0, 1e-4, 0.3, 0.9, 0.9999):
        kappa = vmf.concentration_for(cosine, dim)
        assert float(vmf.mean_cosine(kappa, dim)) == pytest.approx(cosine, abs=1e-9)
    with pytest.raises(ValueError, match="mean cosine is 1"):
        vmf.concentration_for(1.0, dim)


@pytest.mark.parametrize(("dim", "kappa"), [(2, 0.5), (2, 20.0), (3, 5.0), (6, 2.0), (17, 50.0), (64, 10.0)])
def test_samples_agree_with_scipy(dim, kappa):
    n, mean = 20_000, axis(dim)
    x, rate = vmf.sample(np.random.default_rng(1), mean, kappa, n)
    np.testing.assert_allclose(np.linalg.norm(x, axis=1), 1.0, rtol=1e-12)
    reference = stats.vonmises_fisher(mean, kappa).rvs(n, random_state=np.random.default_rng(2))
    assert same_law(x @ mean, reference @ mean)
    # the direction across the mean is uniform: its average vanishes
    across = x - np.outer(x @ mean, mean)
    np.testing.assert_allclose(across.mean(0), 0.0, atol=5 / np.sqrt(n * dim))
    exact = vmf.acceptance_rate(kappa, dim)
    assert rate == pytest.approx(exact, abs=5 * np.sqrt(exact * (1 - exact) / n) + 1e-12)


@pytest.mark.parametrize(("dim", "kappa"), [(2, 3.0), (3, 5.0), (17, 50.0)])
def test_the_jitted_sampler_draws_from_the_same_law(dim, kappa):
    n, mean = 20_000, axis(dim)
    tiled = jnp.broadcast_to(jnp.asarray(mean, jnp.float32), (n, dim))
    x = np.asarray(vmf.jitted_sampler(dim)(jax.random.key(0), tiled, jnp.full(n, kappa)), np.float64)
    np.testing.assert_allclose(np.linalg.norm(x, axis=1), 1.0, rtol=1e-5)
    reference, _ = vmf.sample(np.random.default_rng(3), mean, kappa, n)
    assert same_law(x @ mean, reference @ mean)


def test_a_mean_along_the_first_axis_needs_no_reflection():
    mean = np.array([1.0, 0.0, 0.0])
    x, _ = vmf.sample(np.random.default_rng(0), mean, 100.0, 1000)
    assert (x @ mean).mean() == pytest.approx(float(vmf.mean_cosine(100.0, 3)), abs=1e-3)
