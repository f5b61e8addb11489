"""What a person sees while training, in a pipe."""

import sys

import pytest

from geoact.config import GACConfig, RunConfig
from geoact.training.progress import Display, EvaluationLines

CONFIG = RunConfig(env="Hopper-v5", algorithm="gac", settings=GACConfig(), timesteps=1000)
ROW = {
    "step": 250,
    "charts/episodic_return": 1234.5,
    "charts/SPS": 90.0,
    "time/elapsed": 30.0,
    "policy/kappa": 0.5,
}


def test_a_line_for_each_row_with_a_return(capsys: pytest.CaptureFixture[str]):
    display = Display(CONFIG)
    display.show({"step": 100, "time/elapsed": 12.0, "policy/kappa": 1.0})  # nothing to tell yet
    display.show(ROW)
    display.show({"step": 1000, "eval/return_mean": 7.0, "time/elapsed": 120.0})
    display.close()
    assert capsys.readouterr().out.splitlines() == [
        "      250 ( 25%)  return 1,234  kappa 0.50  90 steps/s  1.5 min left",
        "    1,000 (100%)  return 1,234  evaluation 7  kappa 0.50  90 steps/s  0 s left",
    ]


def test_a_broken_pipe_is_no_reason_to_stop(monkeypatch: pytest.MonkeyPatch):
    def broken(text: str) -> int:
        raise BrokenPipeError

    display = Display(CONFIG)
    monkeypatch.setattr(sys.stdout, "write", broken)
    display.show(ROW)


def test_an_evaluation_says_how_far_it_is_now_and_then():
    said: list[str] = []
    lines = EvaluationLines(10, said.append, seconds=0.0)
    lines(2, 5_000)
    assert said == ["evaluating: episode 3 of 10, step 5,000"]
    EvaluationLines(10, said.append, seconds=60.0)(2, 6_000)
    assert len(said) == 1
