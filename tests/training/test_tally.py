"""What a run counts: a log point covers what came since the last one, and a checkpoint gives it all back."""

import json
import math
from collections.abc import Iterator

import numpy as np
import pytest

from geoact.training.learner import Core
from geoact.training.tally import Tally
from tests.training.run_cases import config
from tests.training_cases import start


@pytest.fixture
def core() -> Iterator[Core]:
    with start(config()) as session:
        yield session.learner.core


def test_a_log_point_counts_from_the_last_one(core):
    tally = Tally(elapsed=2.0, checkpoint_seconds=0.5)
    core.vector_steps, core.episodes = 10, [(3.0, 4), (5.0, 8)]
    row = tally.row(core, checkpoints=True)
    assert (row["step"], row["updates"], row["charts/SPS"]) == (20, 0, 10.0)
    assert (row["charts/episodic_return"], row["charts/episodic_length"]) == (4.0, 6.0)
    assert (row["charts/episodes"], row["time/elapsed"], row["time/checkpoints"]) == (2, 2.0, 0.5)
    core.vector_steps, tally.elapsed = 40, 5.0
    row = tally.row(core, checkpoints=False)
    np.testing.assert_allclose(row["charts/SPS"], 20.0)
    assert not {"charts/episodic_return", "time/checkpoints"} & row.keys()


@pytest.mark.parametrize("best", [-math.inf, 7.0])
def test_facts_there_and_back_through_a_file(best):
    tally = Tally(best, 3.0, 0.25, (2.5, 60), "it was interrupted")
    again = Tally()
    again.restore(json.loads(json.dumps(tally.facts(), allow_nan=False)))
    assert again == tally


def test_lost_episodes_are_noted_and_none_is_no_note():
    tally = Tally()
    tally.note_lost([], 8)
    assert tally.not_exact is None
    tally.note_lost([1, 5], 8)
    assert tally.not_exact == "2 of 8 environments did not reproduce their episode and began a new one"
