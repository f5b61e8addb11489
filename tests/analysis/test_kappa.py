import csv
import json
from pathlib import Path

import numpy as np
import pytest

from geoact.analysis import kappa
from geoact.analysis.act_cost import random_policy
from geoact.analysis.exploring import Episode
from geoact.config import RunConfig, defaults
from geoact.errors import InputError
from geoact.storage.runs import create

REFERENCE = Path(__file__).parents[3] / "shared" / "reference"


def test_the_concentration_is_the_policys_own():
    policy = random_policy("gac", 4, 3)  # softplus
    obs = np.random.default_rng(0).standard_normal((50, 4)).astype(np.float32)
    found, weight = kappa.concentration(policy, obs)
    tensors = policy.tensors
    x = obs
    for layer in ("backbone.0", "backbone.1", "concentration.0"):
        x = np.maximum(x @ tensors[f"{layer}.weight"].T + tensors[f"{layer}.bias"], 0.0)
    expected = np.logaddexp(x @ tensors["concentration.1.weight"].T + tensors["concentration.1.bias"], 0.0)
    np.testing.assert_allclose(found, expected[:, 0], rtol=1e-5)
    np.testing.assert_allclose(weight, 1 / (1 + np.exp(-expected[:, 0])), rtol=1e-5)


def test_the_value_is_what_followed_and_unknown_where_time_was_over():
    episode = Episode(np.zeros((3, 1), np.float32), np.array([1.0, 2.0, 4.0]), terminated=True)
    np.testing.assert_allclose(kappa.known_value(episode), [1 + 0.99 * (2 + 0.99 * 4), 2 + 0.99 * 4, 4.0])
    long = Episode(np.zeros((400, 1), np.float32), np.ones(400), terminated=False)
    assert np.isnan(kappa.known_value(long)).sum() == 300


def test_rank_correlation_by_hand():
    x = np.array([1.0, 2.0, 3.0, np.nan])
    assert kappa.rank_correlation(x, np.array([10.0, 100.0, 1000.0, 0.0])) == pytest.approx(1.0)
    assert kappa.rank_correlation(x, np.array([3.0, 1.0, 2.0, 0.0])) == pytest.approx(-0.5)
    assert kappa.rank_correlation(x, np.ones(4)) is None


def test_means_of_intervals():
    middle, mean = kappa.means(np.array([0.0, 1.0, 5.0]), np.array([1.0, 3.0, 7.0]), np.array([0, 2, 4, 6]))
    assert middle == [1.0, 5.0] and mean == [2.0, 7.0]


def a_run(folder, weights):
    config = RunConfig(env="Hopper-v5", algorithm="gac", settings=defaults("gac"), timesteps=1000)
    run = create(folder, config)
    rows = [
        {"step": 100 * i, "policy/weight": weight, "policy/kappa": 1.0} for i, weight in enumerate(weights, 1)
    ]
    (run.path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return run.path


def test_runs_are_followed_over_training(tmp_path):
    a_run(tmp_path / "runs", [0.5] * 8 + [0.7, 0.9])
    files = kappa.run(tmp_path / "out", [tmp_path / "runs"])
    assert [path.name for path in files] == [
        "kappa_training.md",
        "kappa_training.csv",
        "kappa.png",
        "kappa.svg",
    ]
    with open(files[1]) as file:
        (row,) = csv.DictReader(file)
    assert float(row["w first"]) == 0.5 and float(row["w highest"]) == 0.9
    assert float(row["w in the end"]) == pytest.approx(0.8)  # steps 900 and 1000


def test_policies_of_other_kinds_are_left_out(tmp_path):
    paths = [random_policy(name, 4, 3).save(tmp_path / name) for name in ("gac", "sac")]
    found, runs = kappa.find(paths)
    assert list(found) == ["gac"] and not runs
    with pytest.raises(InputError, match="no geometric policy"):
        kappa.run(tmp_path / "out", [tmp_path / "sac"])


@pytest.mark.slow
@pytest.mark.skipif(not REFERENCE.is_dir(), reason="the published checkpoints are not part of the repository")
def test_the_published_concentration_is_nearly_constant_on_ant_and_not_on_halfcheetah():
    found, _ = kappa.find([REFERENCE / f"{name}-v4_step_500000.pt" for name in ("Ant", "HalfCheetah")])
    ant, cheetah = (kappa.follow(name, policy, 1, seed=0) for name, policy in found.items())
    assert ant.kappa.min() > 3.5 and ant.kappa.max() < 3.6 and np.ptp(ant.weight) < 0.002
    assert cheetah.kappa.max() > 10 and 0.95 < cheetah.weight.mean() < 0.99
