import filecmp

import numpy as np
import pytest

from geoact import sphere
from geoact.analysis import concentration
from geoact.experiments.paper_numbers import paper_numbers


@pytest.mark.parametrize("dim", [2, 3, 6, 17])
@pytest.mark.parametrize("kappa", [-2.0, 0.0, 1.0])
def test_angle_spread_agrees_with_samples(dim, kappa):
    n = 20_000
    u = concentration.draw(7, kappa, dim, n).astype(np.float64)
    angle = np.degrees(np.arctan2(np.linalg.norm(u[:, 1:], axis=1), u[:, 0]))
    spread = float(concentration.angle_spread(kappa, dim))
    # the standard error of a standard deviation, from the sample's own fourth moment
    fourth = np.mean((angle - angle.mean()) ** 4)
    se = np.sqrt((fourth / spread**4 - 1) / 4 / n) * spread
    assert spread == pytest.approx(angle.std(), abs=4 * se)


def test_the_papers_table_was_measured_in_three_dimensions():
    """Its mean cosines lie within the sampling error of the exact ones in d = 3, and in no other dimension."""
    rows = np.array(paper_numbers()["tableA1_concentration"]["rows"])
    kappa, cosine = rows[:, 0], rows[:, 2]
    worst = {}
    for dim in (2, 3, 4, 6, 17):
        sd = [concentration.draw(1, k, dim, 20_000)[:, 0].std() for k in kappa]
        error = np.abs(cosine - sphere.mean_cosine_exact(kappa, dim))
        worst[dim] = np.max(error / (np.array(sd) / np.sqrt(500) + 5e-4))  # + the rounding of the table
    assert worst.pop(3) < 2.0
    assert min(worst.values()) > 3.0


@pytest.mark.slow
def test_a_rerun_gives_the_same_files(tmp_path):
    first, second = concentration.run(tmp_path / "a"), concentration.run(tmp_path / "b")
    assert [p.name for p in first] == [p.name for p in second]
    assert {p.suffix for p in first} == {".md", ".csv", ".png", ".svg"}
    for a, b in zip(first, second):
        assert filecmp.cmp(a, b, shallow=False), a.name


@pytest.mark.parametrize(("dim", "expected"), [(2, 2 / np.pi), (3, 0.5), (17, 0.1964)])
def test_the_mean_size_of_a_coordinate(dim, expected):
    """In d = 3 each coordinate is uniform on [-1, 1]; the paper's 0.2425 for d = 17 is the root mean square."""
    assert concentration.mean_coordinate(dim) == pytest.approx(expected, abs=5e-5)
    samples = np.random.default_rng(0).standard_normal((200_000, dim))
    samples /= np.linalg.norm(samples, axis=1, keepdims=True)
    assert concentration.mean_coordinate(dim) == pytest.approx(np.abs(samples).mean(), rel=5e-3)
