"""What a person sees while training, in a pipe."""

import pytest

from geoact.config import GACConfig, RunConfig
from geoact.training.progress import Progress

CONFIG = RunConfig(env="Hopper-v5", algorithm="gac", settings=GACConfig(), timesteps=1000)
ROW = {
    "step": 250,
    "charts/episodic_return": 1234.5,
    "charts/SPS": 90.0,
    "time/elapsed": 30.0,
    "policy/kappa": 0.5,
}


def test_a_line_for_each_row_with_a_return(capsys: pytest.CaptureFixture[str]):
    with Progress(CONFIG) as progress:
        progress.show({"step": 100, "time/elapsed": 12.0, "policy/kappa": 1.0})  # nothing to tell yet
        progress.show(ROW)
        progress.show({"step": 1000, "eval/return_mean": 7.0, "time/elapsed": 120.0})
    assert capsys.readouterr().out.splitlines() == [
        "      250 ( 25%)  return 1,234  kappa 0.50  90 steps/s  1.5 min left",
        "    1,000 (100%)  return 1,234  evaluation 7  kappa 0.50  90 steps/s  0 s left",
    ]


def test_a_callback_is_asked_whatever_becomes_of_the_line(monkeypatch: pytest.MonkeyPatch):
    seen: list[float] = []

    def callback(row: dict[str, float]) -> bool:
        seen.append(row["step"])
        return False

    def broken(self: Progress, row: dict[str, float]) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(Progress, "show", broken)
    with Progress(CONFIG) as progress:
        assert progress.wrap(callback)(ROW) is False
        assert progress.wrap(None)(ROW) is None
    assert seen == [250]
