"""`geoact evaluate`: which policy it plays, where, and what it reports."""

import json

import pytest

from geoact.commands.evaluate import Evaluate, run
from geoact.errors import InputError


def test_newest_or_best_by_path_or_name(player, capsys):
    for path, best, expected in (
        (player.path, False, -0.01),
        (player.path, True, -0.25),
        (player.path.name, True, -0.25),
        (player.policy_path, False, -0.01),
    ):
        assert run(Evaluate(path, best=best, runs_dir=player.path.parent, episodes=3, json=True)) == 0
        facts = json.loads(capsys.readouterr().out)
        assert facts["return_mean"] == pytest.approx(expected, abs=1e-6)
        assert (facts["episodes"], facts["seed"], len(facts["returns"])) == (3, 0, 3)


def test_in_words_and_with_noise(player, capsys):
    assert run(Evaluate(player.path, episodes=2)) == 0
    assert (
        capsys.readouterr().out
        == "td3 on tests.probes:Reach-v0: return -0.0 +- 0.0 over 2 episodes (length 1)\n"
    )
    assert run(Evaluate(player.path, episodes=5, stochastic=True, json=True)) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["stochastic"] and facts["return_mean"] < 0 and facts["return_std"] > 0


def test_another_environment(player):
    with pytest.raises(InputError, match="give the environment that it was trained on"):
        run(Evaluate(player.path, env="Pendulum-v1"))
