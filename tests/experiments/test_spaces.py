"""Search spaces fit their algorithms, and a wrong one is refused with its line."""

from pathlib import Path

import pytest

from geoact.config import REGISTRY, defaults
from geoact.errors import InputError
from geoact.experiments import spaces


@pytest.mark.parametrize("algorithm", list(REGISTRY))
def test_every_algorithm_has_a_space_with_its_defaults_in_it(algorithm: str):
    settings, space = defaults(algorithm), spaces.of(algorithm)
    usual = spaces.usual_values(space, settings)
    assert len(space) >= 5 and spaces.with_values(settings, usual) == settings
    for name, parameter in space.items():
        if isinstance(parameter, spaces.Choice):
            assert usual[name] in parameter.values
        else:
            assert parameter.low <= usual[name] <= parameter.high
        for value in parameter.values if isinstance(parameter, spaces.Choice) else (parameter.high,):
            spaces.with_values(settings, {name: value}).resolve("Hopper-v5", 3, 100_000)


def test_the_default_is_added_and_groups_are_reached(tmp_path: Path):
    path = tmp_path / "space.toml"
    path.write_text('[td3]\ngamma = { low = 0.9, high = 0.95 }\n"critic.layer_norm" = { choices = [true] }\n')
    space = spaces.of("td3", path)
    assert space == {"gamma": spaces.Range(0.9, 0.99), "critic.layer_norm": spaces.Choice((False, True))}
    changed = spaces.with_values(defaults("td3"), {"critic.layer_norm": True, "gamma": 0.93})
    assert changed.gamma == 0.93 and changed.critic.layer_norm  # type: ignore[attr-defined]
    assert changed.critic.actor_value == "one"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[sac]\ngama = { choices = [1] }", "line 2, sac.gama: gama is no setting of sac"),
        ("[sac]\ngamma = { choices = [] }", "line 2, sac.gamma: must have choices"),
        ("[sac]\ngamma = { low = 0.9, high = 0.8 }", "must have choices"),
        ("[sac]\ngamma = { choices = [2.0] }", r"gamma must be in \(0, 1\]"),
        ("[sac]\nbatch_size = { choices = ['many'] }", "batch-size must be a whole number"),
        ("[sca]\ngamma = { choices = [0.9] }", "line 1, sca: unknown algorithm 'sca': did you mean sac"),
        ("[ppo]\ngamma = { choices = [0.9] }", r"needs a table \[sac\]"),
    ],
)
def test_a_wrong_space_is_refused_with_its_line(tmp_path: Path, text: str, words: str):
    path = tmp_path / "space.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=words):
        spaces.of("sac", path)
