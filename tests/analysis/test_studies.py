"""The side studies by name: each is a module with the arguments that it says it takes."""

import importlib
import inspect
from pathlib import Path

import pytest

from geoact.analysis.studies import STUDIES, analyze, check
from geoact.errors import InputError


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_is_a_module_beside_it(name):
    parameters = inspect.signature(importlib.import_module(f"geoact.analysis.{name}").run).parameters
    assert {"out", "seed"} <= set(parameters) and ("runs" in parameters) == STUDIES[name].reads_runs


def test_every_study_is_explained_by_the_command():
    import geoact.commands.analyze as command

    source = Path(str(command.__file__)).read_text()
    assert all(f"{name}: " in source for name in STUDIES)


def test_what_cannot_be_made_is_refused(tmp_path):
    with pytest.raises(InputError, match="did you mean entropy"):
        check("entropi", [])
    with pytest.raises(InputError, match="needs the runs to look at"):
        check("scales", [])
    with pytest.raises(InputError, match="takes no runs"):
        analyze("entropy", tmp_path / "out", [tmp_path])
    assert not (tmp_path / "out").exists()
