"""`geoact bench`: what it refuses, and the quick one of its measurements."""

import pytest

from geoact.cli import main
from geoact.commands.bench import Bench, run
from geoact.config import REGISTRY
from geoact.errors import InputError


def test_options_check_themselves():
    with pytest.raises(InputError, match="unknown benchmark 'steps': known: step, act"):
        Bench("steps")
    with pytest.raises(InputError, match="repeats must be greater than 0"):
        Bench(repeats=0)


def test_the_step_is_that_of_the_named_algorithm(monkeypatch):
    asked: list[tuple[object, ...]] = []
    monkeypatch.setattr("geoact.analysis.step_cost.run", lambda *given: asked.append(given))
    assert run(Bench(env="Hopper-v5", algorithm="sac", repeats=2)) == 0
    assert asked == [("Hopper-v5", "sac", 2)]


def test_bench_act(capsys) -> None:
    assert main(["bench", "act", "--repeats", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()[2:]
    assert len(lines) == 2 * len(REGISTRY)
    for line in lines:
        best, median = map(float, line.split()[-2:])
        assert 0.0 < best <= median
