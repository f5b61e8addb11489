"""`geoact resume`: what it says of runs that need no going on; going on is tested with training and reliability."""

from pathlib import Path

import pytest

from geoact.commands.resume import Resume, run
from geoact.errors import InputError


def test_a_finished_run_is_told_how_to_be_extended(folder, capsys):
    assert run(Resume(Path("b"), runs_dir=folder)) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"{folder / 'b'} is finished (100 transitions); ") and "--timesteps N" in said


def test_what_cannot_go_on(folder):
    with pytest.raises(InputError, match="is not a run"):
        run(Resume(Path("not-a-run"), runs_dir=folder))
    with pytest.raises(InputError, match="--timesteps can only make it longer, got 50"):
        run(Resume(Path("b"), runs_dir=folder, timesteps=50))
