"""From a name to one environment: whatever is given, an environment or one sentence; and nothing is left behind."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from geoact import environments
from geoact.environments import tasks
from geoact.errors import InputError

ODD = [
    "", " ", ":", "::", "a:", ":a", ":Hopper-v5", ".:Hopper-v5", "..x:Hopper-v5", "a..b:Hopper-v5", "os:", "os:nothing",
    "os:Hopper-v5:Hopper-v5", "\x00", "\x00:Hopper-v5", "Hopper-v", "Hopper-v-1", "Hopper-v999999999999", "Hopper", "/",
    "dm_control/", "dm_control/walker", "walker-run-v1", "Hopper-v5/", "../Hopper-v5", "GymV26Environment-v0", "é:ü",
    "x" * 3000, "[]", "Hopper-v5\n", "mo dule:Id",
]  # fmt: skip


@pytest.mark.parametrize("env", ODD, ids=[repr(name[:30]) for name in ODD])
def test_trust_20_an_odd_name_is_one_sentence(env):
    with pytest.raises(InputError) as refused:
        environments.make(env)
    assert "\n" not in str(refused.value).replace("Hopper-v5\n", "") and len(str(refused.value)) < 4000


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (
            "raise RuntimeError('no licence')",
            "which 'own_env:Thing-v0' names: RuntimeError: no licence",
        ),
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        ("def broken(:", "SyntaxError"),
        ("import no_such_thing_at_all", "No module named 'no_such_thing_at_all'"),
    ],
)
def test_trust_20_a_module_that_cannot_be_imported_is_one_sentence(body, sentence, tmp_path, monkeypatch):
    (tmp_path / "own_env.py").write_text(body)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="cannot import") as refused:
        environments.make("own_env:Thing-v0")
    assert sentence in str(refused.value)


OWN = """
import gymnasium as gym
import numpy as np

class Own(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (3,))
    action_space = gym.spaces.Box(-1, 1, (2,))

gym.register("Own-v0", entry_point="own_thing.inner:Own")
"""


def test_modules_of_the_current_folder_are_found_and_the_path_stays_as_it_was(tmp_path):
    (tmp_path / "own_thing").mkdir()
    (tmp_path / "own_thing" / "__init__.py").write_text(OWN)
    (tmp_path / "own_thing" / "inner.py").write_text("from own_thing import Own")
    code = (
        "import os, sys; sys.path = [p for p in sys.path if p not in ('', os.getcwd())]; before = list(sys.path); "
        "from geoact import environments; env = environments.make('own_thing:Own-v0'); "
        "print(env.action_space.shape, sys.path == before)"
    )
    path = str(Path(environments.__file__).parent.parent.parent)
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "(2,) True"


@pytest.mark.parametrize(("given", "seen"), [(None, "disabled"), ("egl", "egl")])
def test_mujoco_looks_for_no_display_and_the_variable_stays_as_it_was(given, seen, tmp_path):
    (tmp_path / "looks.py").write_text(
        OWN.replace("own_thing.inner", "looks") + "import os; print(os.environ.get('MUJOCO_GL'))\n"
    )
    variables = {key: value for key, value in os.environ.items() if key != "MUJOCO_GL"}
    variables |= {"PYTHONPATH": str(Path(environments.__file__).parent.parent.parent)}
    variables |= {"MUJOCO_GL": given} if given else {}
    code = (
        "import os; from geoact import environments; environments.make('looks:Own-v0'); "
        "print(os.environ.get('MUJOCO_GL'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=variables, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [seen, str(given)]


def test_rendering_keeps_what_is_set(monkeypatch, tmp_path):
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    (tmp_path / "renders.py").write_text(
        OWN.replace("own_thing.inner", "renders").replace("Own-v0", "Renders-v0")
        + "import os; SEEN = os.environ.get('MUJOCO_GL')\n"
        + "Own.metadata = {'render_modes': ['rgb_array']}; Own.__init__ = lambda self, render_mode=None: None\n"
    )
    monkeypatch.chdir(tmp_path)
    environments.make("renders:Renders-v0", render_mode="rgb_array")
    assert sys.modules["renders"].SEEN is None


def test_trust_19_a_name_out_of_a_file_imports_nothing(tmp_path, monkeypatch):
    (tmp_path / "evil_env.py").write_text("import pathlib; pathlib.Path('was_here').touch()")
    monkeypatch.chdir(tmp_path)
    for name in (
        "evil_env:Thing-v0",
        "evil_env.inner:Thing-v0",
        "no_such:Thing-v0",
        ":",
        "os.path.x:Thing-v0",
    ):
        with pytest.raises(InputError, match=r"would run the module .*--trust-env.*--env"):
            environments.factory(name, trust=False)
    assert not (tmp_path / "was_here").exists()
    with pytest.raises(InputError, match="unknown environment"):
        environments.factory("evil_env:Thing-v0")()  # named by the user
    assert (tmp_path / "was_here").exists()


@pytest.mark.parametrize("name", ["Hopper-v5", "walker-run", "tests.probes:Reach-v0"])
def test_trust_19_what_needs_no_import_is_made(name):
    importlib.import_module("tests.probes")  # imported already, by the user's own program

    environments.factory(name, trust=False)().close()


@pytest.mark.parametrize(
    ("name", "one"),
    [
        ("walker-run", "walker-run"),
        ("dm_control/walker-run", "walker-run"),
        ("dm_control/walker-run-v0", "walker-run"),
        ("Hopper-v5", None),
        ("my_module:my-env", None),
    ],
)
def test_trust_06_an_environment_has_one_name(name, one):
    assert tasks.dm_control_task(name) == one
