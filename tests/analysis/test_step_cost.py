"""Where the time of a step goes: that all parts are measured, and that on-policy ones are refused."""

import pytest

from geoact.analysis import step_cost
from geoact.errors import InputError


def test_an_on_policy_algorithm_has_no_such_step():
    with pytest.raises(InputError, match="ppo"):
        step_cost.run("Pendulum-v1", "ppo", 1)


@pytest.mark.slow
def test_every_part_is_measured(capsys):
    found = step_cost.run("Pendulum-v1", "td3", 1, steps=2)
    assert set(found) >= {"bare update", "whole vector step", "act", "ratio"} and min(found.values()) > 0
    assert "td3 on Pendulum-v1" in capsys.readouterr().out
