"""What several commands take."""

from pathlib import Path

import pytest

from geoact.commands._options import PolicyOptions, check_episodes, check_seed, locate
from geoact.config import SEED_END
from geoact.errors import InputError


def test_a_run_by_its_directory_or_its_name(folder):
    assert locate(folder / "a", "elsewhere") == folder / "a"
    assert locate("a", folder) == folder / "a"
    assert locate("none", folder) == Path("none")  # as it was given, for the message


def test_the_best_policy_of_a_run(folder):
    assert PolicyOptions(Path("a"), runs_dir=folder).policy() == folder / "a"
    assert PolicyOptions(Path("a"), runs_dir=folder, best=True).policy() == folder / "a" / "best"


@pytest.mark.parametrize(("seed", "count"), [(-1, 1), (SEED_END, 1), (SEED_END - 1, 2)])
def test_seeds_that_a_simulator_would_refuse(seed, count):
    with pytest.raises(InputError, match=f"seed must be between 0 and {SEED_END - count}"):
        check_seed(seed, count)


def test_episodes_have_seeds_of_their_own():
    check_episodes(2, SEED_END - 2)
    with pytest.raises(InputError, match="seed must be"):
        check_episodes(3, SEED_END - 2)
    with pytest.raises(InputError, match="episodes must be greater than 0"):
        check_episodes(0, 0)
