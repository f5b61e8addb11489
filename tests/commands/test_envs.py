"""`geoact envs`: what is known at once, and what is looked at."""

import pytest

from geoact.commands.envs import Envs, run
from geoact.environments import tasks
from geoact.errors import InputError


def test_without_names_the_known_ones(capsys):
    assert run(Envs()) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[: len(tasks.GYMNASIUM)]] == [t.name for t in tasks.GYMNASIUM]
    assert "module:Id" in lines[-1]


def test_named_ones_are_made(capsys):
    assert run(Envs(("tests.probes:Reach-v0", "Pendulum-v1"))) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["tests.probes:Reach-v0", "2", "observations", "2", "actions"],
        ["Pendulum-v1", "3", "observations", "1", "actions"],
    ]
    with pytest.raises(InputError, match="did you mean Pendulum-v1"):
        run(Envs(("Pendulm-v1",)))


def test_of_all_those_that_cannot_be_used_are_left_out(capsys, monkeypatch):
    monkeypatch.setattr("geoact.environments.available", lambda: ["CartPole-v1", "Pendulum-v1"])
    assert run(Envs(all=True)) == 0
    assert capsys.readouterr().out.split()[0] == "Pendulum-v1"
