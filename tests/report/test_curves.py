import json
import math
from pathlib import Path

import numpy as np
import pytest

from geoact.errors import InputError
from geoact.report import curves
from geoact.report.collect import collect, group
from geoact.storage.runs import Run
from tests.report.test_collect import make_run


def test_curves_average_over_the_runs_that_reach_a_step(tmp_path: Path) -> None:
    make_run(tmp_path, "a", score=100.0)
    make_run(tmp_path, "b", score=200.0, seed=10)
    runs, _ = collect(tmp_path)
    (members,) = group(runs).values()
    found = curves.curve(members.counted(), "eval/return_mean")
    assert found is not None
    assert found.steps.tolist() == [4000, 8000] and found.mean.tolist() == [75.0, 150.0] and found.runs == 2
    assert found.std == pytest.approx([np.std([50, 100], ddof=1), np.std([100, 200], ddof=1)])
    runs[1].rows.pop()  # the second run stopped half-way
    found = curves.curve(members.counted(), "eval/return_mean")
    assert found is not None
    assert found.mean.tolist() == [75.0, 100.0] and math.isnan(found.std[1])


def test_trust_20_runs_are_drawn_whatever_their_rows_lack(tmp_path: Path) -> None:
    """A row without eval/return_std, a run without rows, an environment named in mathematics."""
    path = make_run(tmp_path, "a")
    rows = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    del rows[0]["eval/return_std"]
    (path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    empty = make_run(tmp_path, "b", env="$\\frac$-v0")
    (empty / "metrics.jsonl").unlink()
    curves.draw_runs([Run(path), Run(empty)], tmp_path / "curves.png")
    assert (tmp_path / "curves.png").stat().st_size > 1000
    with pytest.raises(InputError, match=r"ends in \.png"):
        curves.draw_runs([Run(path)], tmp_path / "curves.jpg")
