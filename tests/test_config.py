"""Configurations check themselves, resolve every automatic choice, and survive JSON."""

import json

import pytest

from geoact.config import ALGORITHMS, GACConfig, RunConfig, defaults
from geoact.errors import InputError


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"radius": 0.0}, "radius must be greater than 0, got 0.0"),
        ({"batch_size": -1}, "batch-size must be greater than 0"),
        ({"gamma": 1.5}, "gamma must be in (0, 1]"),
        ({"tau": 0.0}, "tau must be in (0, 1]"),
        ({"slack": 3}, "slack must be auto, 0, 1 or 2"),
        ({"weight": 1.0, "concentration": "fixed", "exploration": "none"}, "weight must lie between 0 and 1"),
        ({"concentration": "fixed"}, "add --exploration none"),
        ({"concentration": "fixed", "exploration": "entropy"}, "add --exploration none"),
        ({"exploration": "entropy", "normalize_mixture": False}, "density on the sphere"),
        ({"exploration": "entropy", "normalize_direction": False}, "density on the sphere"),
        ({"exploration": "entropy", "concentration": "published"}, "choose free or softplus"),
        ({"scale": "learned", "radius": 2.0}, "leave --radius out"),
    ],
)
def test_invalid_choices_are_refused_with_a_sentence(settings, sentence):
    with pytest.raises(InputError) as caught:
        GACConfig(**settings)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_resolve_makes_the_papers_choices():
    assert GACConfig().resolve("HalfCheetah-v5", 6, 10**6).radius == 2.5
    assert GACConfig().resolve("Ant-v4", 8, 10**6).radius == 1.0
    assert GACConfig(radius=2.0).resolve("Ant-v4", 8, 10**6).radius == 2.0
    plain = GACConfig().resolve("Hopper-v5", 3, 10**6)
    assert (plain.slack, plain.concentration, plain.target_entropy) == (0, "softplus", -3.0)
    assert GACConfig(exploration="entropy").resolve("Hopper-v5", 3, 10**6).concentration == "free"


def test_one_action_dimension_needs_slack():
    assert GACConfig().resolve("Pendulum-v1", 1, 10**6).slack == 1
    with pytest.raises(InputError, match="use --slack 1"):
        GACConfig(slack=0).resolve("Pendulum-v1", 1, 10**6)


@pytest.mark.parametrize("algorithm", sorted(ALGORITHMS))
def test_a_resolved_configuration_is_complete_and_survives_json(algorithm):
    settings = defaults(algorithm).resolve("Ant-v5", 8, 10**6)
    assert settings.resolve("Ant-v5", 8, 10**6) == settings
    config = RunConfig(env="Ant-v5", algorithm=algorithm, settings=settings, seed=3)
    assert RunConfig.from_json(json.loads(json.dumps(config.to_json()))) == config


def test_a_foreign_configuration_is_refused():
    data = RunConfig(env="Ant-v5", algorithm="gac", settings=GACConfig()).to_json()
    data["settings"]["surprise"] = 1
    with pytest.raises(InputError, match="surprise"):
        RunConfig.from_json(data)


def test_unknown_names_get_the_nearest_known_ones():
    with pytest.raises(InputError, match="did you mean gac"):
        defaults("gca")


def test_vector_steps_cover_the_timesteps():
    assert (
        RunConfig(env="x", algorithm="gac", settings=GACConfig(), timesteps=17, num_envs=8).vector_steps == 3
    )
