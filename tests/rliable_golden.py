"""Write rliable_golden.json: what the field's reference library says about fixed scores.

The test suite compares geoact's estimators with these numbers, so that it needs no `rliable` itself. Run in
an environment of its own, from the root of the repository (takes some minutes):

    python -m venv rliable-env
    rliable-env/bin/pip install rliable==1.2.0 arch==7.2.0 numpy==2.4.6 scipy==1.17.1 pandas==2.3.3
    rliable-env/bin/python tests/analysis/rliable_golden.py

Those are the versions of the committed file, on Python 3.11 (they are recorded in it too). rliable draws from
NumPy's global generator, which is therefore seeded here; its intervals carry the Monte Carlo error of 20,000
replicas.
"""

import json
from importlib.metadata import version
from pathlib import Path

import numpy as np
from rliable import library, metrics  # pyright: ignore[reportMissingImports]

REPLICAS = 20_000
THRESHOLDS = [-0.5, 0.0, 0.25, 0.5, 0.75, 1.0, 1.5]


def normal(seed: int, seeds: int, tasks: int, shift: float) -> np.ndarray:
    scores = np.random.default_rng(seed).normal(0.5 + shift, 0.3, size=(seeds, tasks))
    return np.round(scores, 3)


def summarise(x: np.ndarray, y: np.ndarray) -> dict[str, object]:
    def interval(function, *samples):
        np.random.seed(0)  # noqa: NPY002 (the generator rliable draws from)
        scores = samples[0] if len(samples) == 1 else list(samples)
        wrapped = lambda *arrays: np.atleast_1d(function(*arrays))  # noqa: E731
        points, bounds = library.get_interval_estimates({"x": scores}, wrapped, reps=REPLICAS)
        return {
            "estimate": points["x"].tolist(),
            "low": bounds["x"][0].tolist(),
            "high": bounds["x"][1].tolist(),
        }

    return {
        "x": x.tolist(),  # [seeds, tasks]
        "y": y.tolist(),
        "mean": interval(metrics.aggregate_mean, x),
        "iqm": interval(metrics.aggregate_iqm, x),
        "probability_of_improvement": interval(metrics.probability_of_improvement, x, y),
        "profile": interval(lambda scores: library.score_distributions(scores, THRESHOLDS), x),
    }


def main() -> None:
    cases = {
        "five seeds, six tasks": summarise(normal(1, 5, 6, 0.1), normal(2, 5, 6, 0.0)),
        "unequal seeds": summarise(normal(3, 10, 3, 0.0), normal(4, 4, 3, 0.2)),
        "ties": summarise(np.round(normal(5, 6, 4, 0.0), 1), np.round(normal(6, 5, 4, 0.0), 1)),
        "one task": summarise(normal(7, 7, 1, 0.0), normal(8, 7, 1, 0.0)),
    }
    # One outlier of each sign, as a diverged run gives: trimmed by the IQM, seen by the mean.
    wild = normal(9, 5, 4, 0.0)
    wild[0, 0], wild[1, 2] = 1e6, -1e6
    cases["outliers"] = summarise(wild, normal(10, 5, 4, 0.0))
    golden = {
        "versions": {name: version(name) for name in ("rliable", "arch", "numpy", "scipy", "pandas")},
        "replicas": REPLICAS,
        "thresholds": THRESHOLDS,
        "cases": cases,
    }
    Path(__file__).with_suffix(".json").write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    main()
