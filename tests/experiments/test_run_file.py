"""A run's configuration as a file, there and back; what the command line makes of it is tested with train."""

import dataclasses
import json

import pytest

from geoact.checks import changed
from geoact.config import REGISTRY, GACConfig, RunConfig, RunOptions, defaults
from geoact.errors import InputError
from geoact.experiments import run_file


@pytest.mark.parametrize("algorithm", REGISTRY)
def test_what_is_written_is_read_back(algorithm, tmp_path):
    config = RunConfig(
        env="Hopper-v5", algorithm=algorithm, settings=REGISTRY[algorithm].config, timesteps=9000, seed=3
    )
    (tmp_path / "run.toml").write_text(run_file.write(config))
    found = run_file.read(tmp_path / "run.toml")
    assert found.config() == config and not found.resolved


def test_what_is_left_out_has_its_default(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text("seed = 5\n[settings]\nradius = 2\n[settings.critic]\nhidden_sizes = [32, 16]\n")
    found = run_file.read(path)
    assert (found.env, found.algorithm, found.options) == (None, "gac-fast", RunOptions(seed=5))
    given = {"radius": 2.0, "critic": {"hidden_sizes": (32, 16)}}
    assert found.settings == changed(defaults("gac-fast"), given, "gac-fast")
    with pytest.raises(InputError, match="names no environment"):
        found.config()


def test_what_is_open_by_choice_is_written_as_a_word(tmp_path):
    """A variant whose default is a number can be opened again."""
    config = RunConfig(env="Hopper-v5", algorithm="gac", settings=GACConfig(), checkpoint_steps=None)
    assert "# checkpoint_steps: automatic" in run_file.write(config)
    path = tmp_path / "run.toml"
    path.write_text('checkpoint_steps = "none"\n')
    assert run_file.read(path).options.checkpoint_steps is None


def test_a_run_json_is_a_file_too(tmp_path):
    config = RunConfig(env="Hopper-v5", algorithm="gac", settings=GACConfig(radius=1.5), timesteps=100)
    (tmp_path / "run.json").write_text(json.dumps({"config": config.to_json()}))
    for path in (tmp_path, tmp_path / "run.json"):
        found = run_file.read(path)
        assert found.config() == config and found.resolved
    given = dataclasses.replace(config, env_given="what the function f makes")
    (tmp_path / "run.json").write_text(json.dumps({"config": given.to_json()}))
    with pytest.raises(InputError, match="cannot be made from its name"):
        run_file.read(tmp_path)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('algorithm = "gca"', r"line 1, algorithm: unknown algorithm 'gca': did you mean gac"),
        ("sede = 1", r"line 1, sede: unknown key 'sede': did you mean seed"),
        ("[settings]\ncritic = 3", r"line 2, settings.critic: must be a table, \[settings.critic\]"),
        ("[settings.critic]\nlayernorm = true", r"line 2, settings.critic.layernorm: unknown key"),
        ("seed = true", r"line 1, seed: must be a whole number, got True"),
    ],
)
def test_a_wrong_file_is_told_by_line_and_key(text, sentence, tmp_path):
    (tmp_path / "run.toml").write_text(text + "\n")
    with pytest.raises(InputError, match=sentence):
        run_file.read(tmp_path / "run.toml")
