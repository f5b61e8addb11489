"""What the documentation tells engineers to do, done; and the zoo that it does it with."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import geoact
from geoact import runtime
from geoact.errors import InputError
from tests.test_runtime import ONLY_NUMPY

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "docs" / "deployment.md", ROOT / "README.md"]
ZOO = runtime.zoo()


def robot_blocks(page: Path) -> list[str]:
    """The Python blocks of the section "use it on your robot"."""
    text = page.read_text() if page.is_file() else ""
    section = re.search(r"^## use it on your robot$(.*?)(?=^## |\Z)", text, re.M | re.S | re.I)
    return re.findall(r"^```python\n(.*?)^```", section[1], re.M | re.S) if section else []


def test_the_documentation_has_the_section() -> None:
    assert robot_blocks(PAGES[0])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_use_it_on_your_robot(page: Path, tmp_path: Path) -> None:
    """The code is run as it stands, with NumPy and safetensors alone."""
    for block in robot_blocks(page):
        command = [sys.executable, "-c", ONLY_NUMPY + block]
        environment = {"PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr


def test_the_zoo_is_small_and_has_the_cheetah() -> None:
    assert "halfcheetah" in ZOO
    assert sum(path.stat().st_size for path in (ROOT / "models").rglob("*") if path.is_file()) < 20e6


@pytest.mark.parametrize("name", list(ZOO))
def test_zoo(name: str) -> None:
    policy = runtime.load(f"zoo:{name}")
    agent = geoact.load(f"zoo:{name}")
    obs = np.random.default_rng(0).standard_normal(policy.spec.obs_dim)
    np.testing.assert_array_equal(agent.predict(obs)[0], policy(obs))
    card, results = (
        (ZOO[name] / "README.md").read_text(),
        json.loads((ZOO[name] / "results.json").read_text()),
    )
    assert f"{results['mean_reward']:.2f} +/- {results['std_reward']:.2f}" in card
    assert "geoact train" in card
    np.testing.assert_allclose(np.mean(results["returns"]), results["mean_reward"])


@pytest.mark.slow
@pytest.mark.parametrize("name", list(ZOO))
def test_zoo_scores(name: str) -> None:
    """The middle one of three episodes, within five standard deviations of the card's mean.

    Another processor or MuJoCo rounds otherwise, and a robot that may fall then falls in another episode.
    """
    results = json.loads((ZOO[name] / "results.json").read_text())
    played = geoact.load(f"zoo:{name}").evaluate(episodes=3)
    assert abs(np.median(played.returns) - results["mean_reward"]) < 5 * results["std_reward"]


def test_unknown_names() -> None:
    with pytest.raises(InputError, match="did you mean halfcheetah"):
        runtime.load("zoo:halfcheeta")


def test_an_installation_without_a_zoo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "ZOO", tmp_path)
    with pytest.raises(InputError, match="has no zoo"):
        runtime.load("zoo:halfcheetah")
