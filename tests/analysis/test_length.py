"""The length of actions, by hand and of policies whose lengths are known."""

from pathlib import Path

import numpy as np
import pytest

from geoact.analysis import length
from geoact.errors import InputError
from tests.analysis.test_saturation import policy_for


def test_lengths_by_hand() -> None:
    wanted, executed = length.lengths(np.array([[3.0, 4.0], [0.3, -0.4], [2.0, 0.0]]))
    np.testing.assert_allclose(wanted, [5.0, 0.5, 2.0])
    np.testing.assert_allclose(executed, [np.sqrt(2.0), 0.5, 1.0])


def test_the_papers_form_has_one_length_and_slack_any_up_to_it() -> None:
    obs = np.random.default_rng(0).standard_normal((200, 4)).astype(np.float32)
    fixed, _ = length.lengths(policy_for("gac").raw(obs))
    free, _ = length.lengths(policy_for("gac-fast").raw(obs))
    np.testing.assert_allclose(fixed, 2.5, rtol=1e-5)
    assert free.max() < 2.4 and free.std() > 100.0 * fixed.std()


def test_the_study_runs_on_saved_policies(tmp_path: Path) -> None:
    paths = [policy_for(name, "Pendulum-v1", 3, 1).save(tmp_path / name) for name in ("sac", "gac-fast")]
    files = length.run(tmp_path / "out", paths, episodes=1)
    assert {path.suffix for path in files} == {".md", ".csv", ".png", ".svg"}
    assert "gac-fast" in files[0].read_text()


def test_nothing_to_measure_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="give the runs"):
        length.run(tmp_path, [])
