"""The geometry against closed forms, adaptive quadrature, histograms and samples."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import hyp2f1
from scipy.stats import ortho_group

from geoact import sphere

DIMS = (2, 3, 6, 17)
NODES = 0.5 * np.stack(np.polynomial.legendre.leggauss(600)) + np.array([[0.5], [0.0]])  # on (0, 1)
# Compiled once per shape and dimension: operation by operation, the tests would spend their time compiling.
log_density = jax.jit(sphere.log_density, static_argnums=2)
mix = jax.jit(sphere.mix, static_argnames="normalized")
entropy = jax.jit(sphere.entropy, static_argnums=1)
mean_cosine = jax.jit(sphere.mean_cosine, static_argnums=1)
uniform = jax.jit(sphere.uniform, static_argnums=(1, 2))
entropy_slope = jax.jit(jax.grad(sphere.entropy), static_argnums=1)


def axis(dim: int, dtype=jnp.float32) -> jax.Array:
    """A fixed unit vector without zeros or symmetry."""
    return sphere.normalize(jnp.arange(1, dim + 1, dtype=dtype))


def samples(seed: int, n: int, dim: int, kappa: float) -> tuple[jax.Array, jax.Array]:
    """Mixed directions and the mean direction they belong to, both [n, dim]."""
    xi = uniform(jax.random.key(seed), (n,), dim)
    mu = jnp.broadcast_to(axis(dim), (n, dim))
    return mix(mu, xi, jnp.full((n, 1), jax.nn.sigmoid(kappa))), mu


def ring_area(dim: int) -> float:
    """The area of S^(d-2), the set of points at a given angle from mu; S^0 is two points."""
    return float(np.exp(sphere.log_area(dim - 1))) if dim > 2 else 2.0


# --- normalise, sample, mix ---------------------------------------------------------------------------------


def test_normalize_gives_unit_vectors_and_keeps_dtype():
    v = jax.random.normal(jax.random.key(0), (5, 7, 4)) * 1e3
    unit = sphere.normalize(v)
    assert unit.shape == v.shape and unit.dtype == jnp.float32
    np.testing.assert_allclose(jnp.linalg.norm(unit, axis=-1), 1.0, rtol=1e-6)
    np.testing.assert_allclose(sphere.normalize(jnp.array([3.0, 4.0])), [0.6, 0.8], rtol=1e-6)


def test_normalize_is_safe_at_the_zero_vector():
    zero = jnp.zeros(3)
    np.testing.assert_array_equal(sphere.normalize(zero), 0.0)
    np.testing.assert_array_equal(jax.jacobian(sphere.normalize)(zero), 0.0)


def test_uniform_has_the_moments_of_the_sphere():
    points = np.asarray(uniform(jax.random.key(0), (400, 500), 4), np.float64).reshape(-1, 4)
    np.testing.assert_allclose(np.linalg.norm(points, axis=1), 1.0, rtol=1e-6)
    se = np.sqrt(1 / 4 / len(points))
    np.testing.assert_allclose(points.mean(0), 0.0, atol=5 * se)
    np.testing.assert_allclose(points.T @ points / len(points), np.eye(4) / 4, atol=5 * se)
    # E[x^4] = 3 / (d (d + 2)): a normalised uniform cube would have the right second moments but not these.
    np.testing.assert_allclose((points**4).mean(0), 3 / 24, atol=5 * se)


def test_mix_by_hand():
    mu, xi = jnp.array([[1.0, 0.0]]), jnp.array([[0.0, 1.0]])
    weight = jnp.array([[0.8]])
    np.testing.assert_allclose(sphere.mix(mu, xi, weight, normalized=False), [[0.8, 0.2]], rtol=1e-6)
    np.testing.assert_allclose(sphere.mix(mu, xi, weight), np.array([[0.8, 0.2]]) / np.sqrt(0.68), rtol=1e-6)


def test_mix_is_finite_where_noise_cancels_the_direction():
    mu = jnp.array([0.6, -0.8, 0.0])
    args = (mu, -mu, jnp.array([0.5]))
    np.testing.assert_array_equal(sphere.mix(*args), 0.0)
    for jacobian in jax.jacobian(sphere.mix, argnums=(0, 1, 2))(*args):
        assert np.isfinite(jacobian).all()


@pytest.mark.parametrize("weight", [0.1, 0.5, 0.9])
def test_theorem_1_the_mean_of_the_mixture_is_w_mu(weight):
    dim, n = 6, 400_000
    xi = uniform(jax.random.key(1), (n,), dim)
    mu = jnp.broadcast_to(axis(dim), (n, dim))
    v = np.asarray(sphere.mix(mu, xi, jnp.full((n, 1), weight), normalized=False), np.float64)
    se = (1 - weight) / np.sqrt(dim * n)
    np.testing.assert_allclose(v.mean(0), weight * np.asarray(axis(dim)), atol=5 * se)


@given(
    dim=st.sampled_from([2, 3, 6, 17]),  # few shapes: each compiles anew
    seed=st.integers(0, 2**31 - 1),
    weight=st.floats(0.0, 1.0),
    normalized=st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_mixing_commutes_with_rotation(dim, seed, weight, normalized):
    with jax.enable_x64(True):
        rotation = jnp.asarray(ortho_group.rvs(dim, random_state=seed))
        mu, xi = uniform(jax.random.key(seed), (2,), dim)
        w = jnp.array([weight])
        rotated = mix(rotation @ mu, rotation @ xi, w, normalized=normalized)
        length = float(np.linalg.norm(mix(mu, xi, w, normalized=False)))
        expected = rotation @ mix(mu, xi, w, normalized=normalized)
        np.testing.assert_allclose(rotated, expected, atol=1e-13 / max(length, 1e-6))


# --- the cosine ---------------------------------------------------------------------------------------------


def test_mean_cosine_closed_form_in_three_dimensions():
    kappa = np.linspace(-12, 12, 97)
    t = np.exp(kappa)
    expected = np.where(t <= 1, 2 * t / 3, 1 - 1 / (3 * t**2))
    np.testing.assert_allclose(sphere.mean_cosine_exact(kappa, 3), expected, rtol=1e-9, atol=1e-14)
    np.testing.assert_allclose(mean_cosine(jnp.asarray(kappa, jnp.float32), 3), expected, rtol=3e-6)


@pytest.mark.parametrize("dim", DIMS)
def test_mean_cosine_is_hypergeometric(dim):
    """`E[R]` is F(-1/2, (1-d)/2; d/2; t^2) for t <= 1, t F(...; 1/t^2) for t >= 1, and `E[c] = dE[R]/dt`."""
    kappa = np.array([-8.0, -3.0, -1.0, -0.3, -0.01, 0.01, 0.3, 1.0, 3.0, 8.0])
    t = np.exp(kappa)
    x = np.minimum(t, 1 / t) ** 2
    value = hyp2f1(-0.5, (1 - dim) / 2, dim / 2, x)
    slope = (dim - 1) / (2 * dim) * hyp2f1(0.5, (3 - dim) / 2, dim / 2 + 1, x)
    expected = np.where(t <= 1, 2 * t * slope, value - 2 * x * slope)
    np.testing.assert_allclose(sphere.mean_cosine_exact(kappa, dim), expected, rtol=1e-10)


def test_mean_cosine_tends_to_the_papers_approximation_in_high_dimension():
    kappa = np.linspace(-4, 4, 33)
    t = np.exp(kappa)
    limit = t / np.sqrt(1 + t**2)
    error = [np.abs(sphere.mean_cosine_exact(kappa, dim) - limit).max() for dim in (3, 17, 512)]
    assert error[0] > 0.03 > error[1] > 1e-3 > error[2]


# 2 is also one action dimension with slack 1
@pytest.mark.parametrize("dim", [2, 3, 6, *(pytest.param(d, marks=pytest.mark.slow) for d in (17, 64))])
def test_mean_cosine_agrees_with_a_million_samples(dim):
    kappas = np.arange(-6.0, 8.5, 2.0)
    chunks, n = 200, 5_000

    def sums(key):
        xi = uniform(key, (n,), dim)
        mu = jnp.broadcast_to(axis(dim, xi.dtype), xi.shape)
        rows = []
        for kappa in kappas:
            # 1 - c, because at kappa = 8 the spread of c is 1e-7
            c = 1.0 - jnp.sum(sphere.mix(mu, xi, jnp.full((n, 1), jax.nn.sigmoid(kappa))) * mu, axis=-1)
            rows.append(jnp.stack([c.sum(), (c * c).sum()]))
        return jnp.stack(rows)

    with jax.enable_x64(True):
        keys = jax.random.split(jax.random.key(dim), chunks)
        total = np.asarray(jax.jit(lambda keys: jax.lax.map(sums, keys))(keys)).sum(axis=0)
    mean, square = total.T / (chunks * n)
    se = np.sqrt((square - mean**2) / (chunks * n))
    error = mean - (1 - sphere.mean_cosine_exact(kappas, dim))
    np.testing.assert_array_less(np.abs(error), 4 * se)


# --- the density --------------------------------------------------------------------------------------------


def integral(function: Callable[[jax.Array, jax.Array], jax.Array], kappa: float, dim: int) -> float:
    """Integral over the sphere of a function of the cosine and the shipped log density, in float64.

    For t > 1 over s with sin(theta) = cos(s) / t, so that the integrable pole at the cone's rim is smoothed.
    """
    x, weight = NODES
    t = np.exp(kappa)
    if t > 1:
        s = np.pi / 2 * x
        sin = np.cos(s) / t
        cos = np.sqrt(1 - sin**2)
        weight = weight * np.pi / 2 * np.sin(s) / (t * cos)
    else:
        sin, cos = np.sin(np.pi * x), np.cos(np.pi * x)
        weight = weight * np.pi
    with jax.enable_x64(True):
        values = np.asarray(function(jnp.asarray(cos), log_density(cos, kappa, dim)))
    assert values.dtype == np.float64
    return float(np.sum(weight * ring_area(dim) * sin ** (dim - 2) * values))


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("kappa", [-3.0, -0.5, -0.01, 0.01, 0.5, 2.0, 4.0])
def test_density_integrates_to_one(dim, kappa):
    assert integral(lambda c, log_f: jnp.exp(log_f), kappa, dim) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("kappa", [-1.0, 1.0])
def test_density_gives_the_mean_cosine(dim, kappa):
    mean = integral(lambda c, log_f: c * jnp.exp(log_f), kappa, dim)
    assert mean == pytest.approx(float(sphere.mean_cosine_exact(kappa, dim)), abs=1e-6)


@pytest.mark.parametrize("kappa", [-1.0, -0.2, 0.2, 1.5])
def test_density_closed_form_in_the_plane(kappa):
    """d = 2: roots t c +- q, so 2 pi f = 1 + t c / q for t <= 1, and 2 t c / q inside the cone for t > 1."""
    t, c = np.exp(kappa), np.array([-0.95, -0.4, 0.3, 0.8, 0.985, 1.0])
    square = 1 - t**2 * (1 - c**2)
    q = np.sqrt(np.abs(square))
    expected = np.where(t <= 1, 1 + t * c / q, np.where((c > 0) & (square > 0), 2 * t * c / q, 0.0))
    actual = np.exp(log_density(jnp.asarray(c, jnp.float32), kappa, 2))
    np.testing.assert_allclose(2 * np.pi * actual, expected, rtol=2e-5)


@pytest.mark.parametrize("kappa", [0.1, 1.0, 4.0])
def test_samples_stay_in_the_support_cone_and_reach_its_rim(kappa):
    u, mu = samples(3, 200_000, 3, kappa)
    sine = np.linalg.norm(np.cross(np.asarray(u, np.float64), np.asarray(mu, np.float64)), axis=1)
    rim = np.exp(-kappa)
    assert np.all(np.sum(np.asarray(u * mu), axis=1) > 0)
    assert sine.max() <= rim * (1 + 1e-5) and sine.max() > 0.9999 * rim


@pytest.mark.parametrize("kappa", [0.1, 1.0, 4.0])
def test_log_density_is_minus_infinity_outside_the_cone(kappa):
    rim = np.exp(-kappa)
    outside = np.sqrt(1 - (1.02 * rim) ** 2)
    inside = np.sqrt(1 - (0.98 * rim) ** 2)
    assert log_density(jnp.float32(outside), kappa, 3) == -np.inf
    assert log_density(jnp.float32(-1.0), kappa, 3) == -np.inf  # in line with mu, but behind
    assert np.isfinite(log_density(jnp.float32(inside), kappa, 3))


def test_density_of_no_signal_is_uniform():
    c = jnp.linspace(-1.0, 1.0, 9)
    np.testing.assert_allclose(log_density(c, -40.0, 5), -sphere.log_area(5), rtol=1e-6)


# --- the entropy --------------------------------------------------------------------------------------------


def test_entropy_at_three_known_values():
    kappa = jnp.array([-1.0, 0.5, 2.0])
    np.testing.assert_allclose(entropy(kappa, 3), [2.4389, 0.0899, -3.1499], atol=6e-5)


@pytest.mark.parametrize(("dim", "kappa"), [(2, -0.7), (2, 0.7), (3, -1.0), (3, 0.5), (3, 2.0), (6, 1.0)])
def test_entropy_against_a_histogram_of_the_samples(dim, kappa):
    n, bins = 1_000_000, 400
    u, mu = samples(4, n, dim, kappa)
    theta = np.arccos(np.clip(np.asarray(jnp.sum(u * mu, axis=-1), np.float64), -1, 1))
    if kappa > 0:  # bins uniform in s, sin(theta) = cos(s) / t, which spreads out the rim of the cone
        edges = np.arcsin(np.cos(np.linspace(np.pi / 2, 0, bins + 1)) / np.exp(kappa))
        edges[-1] += 1e-5  # float32 samples
    else:
        edges = np.linspace(0, np.pi, bins + 1)
    counts, _ = np.histogram(theta, edges)
    area = ring_area(dim) * np.sin((edges[1:] + edges[:-1]) / 2) ** (dim - 2) * np.diff(edges)
    p = counts / n
    seen = p > 0
    histogram = -np.sum(p[seen] * np.log(p[seen] / area[seen]))
    assert float(entropy(kappa, dim)) == pytest.approx(histogram, abs=0.01)


def test_entropy_closed_form_in_the_plane():
    """d = 2: log(pi (1 + sqrt(1 - t^2))) for t <= 1, log(pi) - arccosh(t) for t >= 1."""
    kappa = np.concatenate([np.linspace(-9, 9, 73), [-1e-2, 1e-2, -20.0, 20.0]])
    t = np.exp(kappa)
    left = np.log(np.pi * (1 + np.sqrt(np.maximum(1 - t**2, 0))))
    right = np.log(np.pi) - np.arccosh(np.maximum(t, 1))
    expected = np.where(t <= 1, left, right)
    np.testing.assert_allclose(sphere.entropy_exact(kappa, 2), expected, atol=1e-11)
    np.testing.assert_allclose(
        sphere.entropy(jnp.asarray(kappa, jnp.float32), 2), expected, rtol=3e-6, atol=1e-5
    )


def test_entropy_closed_form_in_three_dimensions_below_one():
    """d = 3, t < 1: z is uniform on [-1, 1], and both logarithms integrate to elementary functions."""
    t = np.exp(np.array([-5.0, -2.0, -1.0, -0.3, -0.05]))
    log_r = ((1 + t) ** 2 * np.log((1 + t) ** 2) - (1 - t) ** 2 * np.log((1 - t) ** 2) - 4 * t) / (8 * t)
    log_1tz = ((1 + t) * np.log(1 + t) - (1 - t) * np.log(1 - t)) / (2 * t) - 1
    expected = np.log(4 * np.pi) - 3 * log_r + log_1tz
    np.testing.assert_allclose(sphere.entropy_exact(np.log(t), 3), expected, atol=1e-11)


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("kappa", [-4.0, -0.5, 0.5, 3.0])
def test_entropy_is_minus_the_mean_log_density(dim, kappa):
    expected = integral(lambda c, log_f: -jnp.exp(log_f) * log_f, kappa, dim)
    assert float(sphere.entropy_exact(kappa, dim)) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("dim", [2, 3, 4, 6, 17, 64, 512])
def test_tables_agree_with_quadrature(dim):
    kappa = np.concatenate(
        [np.linspace(-12, 12, 997), np.geomspace(0.005, 1, 50), -np.geomspace(0.005, 1, 50), [0.0]]
    )
    single = jnp.asarray(kappa, jnp.float32)
    h = entropy(single, dim)
    assert h.dtype == jnp.float32
    np.testing.assert_allclose(h, sphere.entropy_exact(kappa, dim), rtol=3e-6, atol=2e-5)
    cosine = mean_cosine(single, dim)
    np.testing.assert_allclose(cosine, sphere.mean_cosine_exact(kappa, dim), rtol=3e-6, atol=1e-6)


@pytest.mark.parametrize("dim", [2, 3, 6, 17, 64, 512])
def test_gradients_inside_jit_match_finite_differences(dim):
    kappa = np.concatenate([np.linspace(-11.9, 11.9, 240), [-0.05, -0.01, 0.01, 0.05]])
    step = 1e-6
    for exact, shipped in (
        (sphere.entropy_exact, sphere.entropy),
        (sphere.mean_cosine_exact, sphere.mean_cosine),
    ):
        difference = (exact(kappa + step, dim) - exact(kappa - step, dim)) / (2 * step)
        gradient = jax.jit(jax.grad(lambda k, f=shipped: f(k, dim).sum()))(jnp.asarray(kappa, jnp.float32))
        np.testing.assert_allclose(gradient, difference, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("dim", [2, 3, 6, 17, 512])
def test_entropy_slope_goes_from_zero_to_minus_d_plus_one(dim):
    # 10 is the end of the table, 40 lies far beyond it
    np.testing.assert_allclose([entropy_slope(k, dim) for k in (9.99, 10.0, 40.0)], -(dim - 1), rtol=1e-5)
    np.testing.assert_allclose([entropy_slope(k, dim) for k in (-9.99, -10.0, -40.0)], 0.0, atol=2e-6)
    assert float(entropy(-40.0, dim)) == pytest.approx(sphere.log_area(dim), rel=1e-6)


@pytest.mark.parametrize("dim", [4, 6, 17, 512])
def test_entropy_slope_where_signal_and_noise_are_equal(dim):
    """At kappa = 0, for d > 3: -(d-1)(d-2) / (2(d-3)); infinite for d = 2 and 3."""
    expected = -(dim - 1) * (dim - 2) / (2 * (dim - 3))
    assert float(entropy_slope(0.0, dim)) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("dim", [2, 3, 6, 17])
def test_entropy_asymptotes(dim):
    """log A - (d-1)^2/(2d) t^2 for small t; log(A/2) + E[log|z|] - (d-1) kappa for large t."""
    t = np.exp(-4.0)
    small = sphere.log_area(dim) - float(sphere.entropy_exact(-4.0, dim))
    assert small == pytest.approx((dim - 1) ** 2 / (2 * dim) * t**2, rel=5e-3)
    phi = (np.arange(200_000) + 0.5) * (np.pi / 200_000)
    weight = np.sin(phi) ** (dim - 2)
    mean_log = float(np.sum(weight * np.log(np.abs(np.cos(phi)))) / weight.sum())
    large = sphere.log_area(dim) - np.log(2) + mean_log - (dim - 1) * 7.0
    assert float(sphere.entropy_exact(7.0, dim)) == pytest.approx(large, abs=1e-4)


def test_minus_kappa_is_not_the_entropy_except_to_first_order_in_the_plane():
    """Far out, H falls by d - 1 per unit of kappa, -kappa by one."""
    for dim, ratio in ((2, 1.0), (3, 2.0), (17, 16.0)):
        fall = sphere.entropy_exact(6.0, dim) - sphere.entropy_exact(9.0, dim)
        assert fall / 3.0 == pytest.approx(ratio, rel=1e-4)


@pytest.mark.parametrize("dim", [2, 3, 17, 512])
@pytest.mark.parametrize("function", [sphere.entropy, sphere.mean_cosine])
def test_no_nan_anywhere_in_float32(dim, function):
    kappa = jnp.concatenate([jnp.linspace(-50.0, 50.0, 2001), jnp.array([-0.0, 1e-30, -1e-30, 1e-6, -1e-6])])
    value, gradient = jax.jit(jax.vmap(jax.value_and_grad(lambda k: function(k, dim))))(kappa)
    assert value.dtype == jnp.float32 and np.isfinite(value).all() and np.isfinite(gradient).all()


@pytest.mark.parametrize("dim", [2, 3, 17, 512])
def test_no_nan_in_the_log_density_in_float32(dim):
    kappa, c = jnp.meshgrid(jnp.linspace(-50.0, 50.0, 201), jnp.linspace(-1.0, 1.0, 41))
    value = log_density(c, kappa, dim)
    gradient = jax.grad(lambda c, k: sphere.log_density(c, k, dim), argnums=(0, 1))
    gradients = jax.jit(jax.vmap(gradient))(c.reshape(-1), kappa.reshape(-1))
    assert not np.isnan(value).any() and not np.isposinf(value).any()
    for gradient in gradients:
        assert np.isfinite(gradient).all()


def test_any_shape_and_under_vmap():
    kappa = jnp.linspace(-3.0, 3.0, 24).reshape(2, 3, 4)
    for function in (sphere.entropy, sphere.mean_cosine):
        assert function(kappa, 5).shape == kappa.shape
        np.testing.assert_allclose(
            jax.vmap(lambda k, f=function: f(k, 5))(kappa), function(kappa, 5), rtol=1e-6
        )


@pytest.mark.parametrize(
    "call",
    [
        lambda: sphere.entropy(0.0, 1),
        lambda: sphere.mean_cosine(0.0, 1),
        lambda: sphere.log_density(0.0, 0.0, 1),
        lambda: sphere.entropy_exact(0.0, 1),
    ],
)
def test_one_dimension_is_refused_with_advice(call):
    with pytest.raises(ValueError, match=r"dim is 1.*slack"):
        call()


# --- slack --------------------------------------------------------------------------------------------------


def test_slack_two_makes_uniform_noise_uniform_in_the_ball():
    """Archimedes: d of the d + 2 coordinates of a uniform point on S^(d+1) are uniform in the d-ball."""
    dim, n = 3, 200_000
    radius = np.linalg.norm(np.asarray(uniform(jax.random.key(5), (n,), dim + 2))[:, :dim], axis=1)
    for level in (0.3, 0.6, 0.9):
        share = level**dim
        assert np.mean(radius <= level) == pytest.approx(share, abs=4 * np.sqrt(share * (1 - share) / n))


def test_slack_one_makes_one_action_dimension_cover_the_interval():
    """The first coordinate of the circle follows the arcsine law on [-1, 1]."""
    a = np.asarray(uniform(jax.random.key(6), (200_000,), 2))[:, 0]
    for level in (-0.8, 0.0, 0.5):
        assert np.mean(a <= level) == pytest.approx(0.5 + np.arcsin(level) / np.pi, abs=0.005)
