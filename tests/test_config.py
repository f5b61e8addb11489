"""Configurations check themselves, resolve every automatic choice, and survive JSON."""

import dataclasses
import json
import typing
from typing import Any, Literal

import numpy as np
import pytest

from geoact import checks
from geoact.config import (
    REGISTRY,
    AlgorithmConfig,
    CriticConfig,
    GACConfig,
    OffPolicyConfig,
    PPOConfig,
    RunConfig,
    RunOptions,
    SACConfig,
    TD3Config,
    defaults,
)
from geoact.errors import InputError
from geoact.policies import NetworkConfig


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"radius": 0.0}, "radius must be greater than 0, got 0.0"),
        ({"batch_size": -1}, "batch-size must be greater than 0"),
        ({"gamma": 1.5}, "gamma must be in (0, 1]"),
        ({"tau": 0.0}, "tau must be in (0, 1]"),
        ({"slack": 3}, "slack must be one of auto, 0, 1, 2, got '3'"),
        ({"weight": 1.0, "concentration": "fixed", "exploration": "none"}, "weight must lie between 0 and 1"),
        ({"concentration": "fixed"}, "add --exploration none"),
        ({"concentration": "fixed", "exploration": "entropy"}, "add --exploration none"),
        ({"exploration": "entropy", "normalize_mixture": False}, "density on the sphere"),
        ({"exploration": "entropy", "normalize_direction": False}, "density on the sphere"),
        ({"exploration": "entropy", "concentration": "published"}, "choose free or softplus"),
        ({"scale": "learned", "radius": 2.0}, "leave --radius out"),
        ({"scale": "learned", "entropy_of": "action"}, "give a --target-entropy"),
        ({"replay_recency": 0.5}, "replay-recency must be 1 or more, got 0.5"),
        ({"noise_spread": 0.5}, "noise-spread must be 1 or more, got 0.5"),
        ({"practice_share": 1.0}, "practice-share must be in [0, 1), got 1.0"),
        ({"practice_steps": 0}, "practice-steps must be greater than 0, got 0"),
        ({"cool_down": 1.5}, "cool-down must be in [0, 1], got 1.5"),
    ],
)
def test_trust_03_invalid_choices_are_refused_with_a_sentence(settings, sentence):
    with pytest.raises(InputError) as caught:
        GACConfig(**settings)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("radius", "slack"), [(2.5, 1), (1.0, 1), (2.5, 0)])
def test_the_target_entropy_of_the_action_leaves_sacs_noise_in_each_coordinate(
    radius: float, slack: Literal[0, 1]
):
    """Narrow noise is Gaussian in the d - 1 + k directions along the sphere: where that is all of the action's (k = 1),
    an entropy of -d is that of a Gaussian of entropy -1 in each of its coordinates."""
    dim = 6
    config = GACConfig(exploration="entropy", entropy_of="action", radius=radius, slack=slack)
    resolved = config.resolve("Toy-v0", dim, 1000)
    assert resolved.target_entropy is not None and resolved.resolve("Toy-v0", dim, 1000) == resolved
    along = dim - 1 + slack
    of_the_action = resolved.target_entropy + along * np.log(radius)
    np.testing.assert_allclose(of_the_action, -dim)
    width = np.exp(of_the_action / along - 0.5 * np.log(2 * np.pi * np.e))  # of that Gaussian
    if slack == 1:
        np.testing.assert_allclose(width, np.exp(-1.0) / np.sqrt(2 * np.pi * np.e))
    usual = GACConfig(exploration="entropy", radius=radius).resolve("Toy-v0", dim, 1000)
    assert usual.target_entropy == -dim


@pytest.mark.parametrize("dim", [3, 5, 6, 7, 8, 12, 17])
def test_the_noise_of_the_action_is_a_tenth_on_every_task(dim: int):
    """What docs/learning.md says of radius 2.5 and slack 1: the noise in a coordinate, r / (t sqrt(d + 1)), and w."""
    from geoact import sphere

    kappa = np.linspace(-2.0, 5.0, 20_000)
    entropies = sphere.entropy_exact(kappa, dim + 1)
    found: dict[str, tuple[float, float]] = {}
    for whose in ("direction", "action"):
        config = GACConfig(exploration="entropy", entropy_of=whose, radius=2.5, slack=1)
        target = config.resolve("Toy-v0", dim, 1000).target_entropy
        assert target is not None
        odds = float(np.exp(kappa[np.argmin(np.abs(entropies - target))]))
        found[whose] = 2.5 / (odds * np.sqrt(dim + 1)), odds / (1.0 + odds)
    assert 0.24 < found["direction"][0] < 0.32 and 0.09 < found["action"][0] < 0.13
    assert 0.855 < found["action"][1] < 0.91


RECORDS: list[type] = [GACConfig, SACConfig, TD3Config, PPOConfig, CriticConfig, NetworkConfig, RunOptions]
FIELDS = [(kind, name) for kind in RECORDS for name in checks.hints(kind)]


@pytest.mark.parametrize(("kind", "name"), FIELDS, ids=[f"{k.__name__}.{n}" for k, n in FIELDS])
def test_trust_03_every_field_is_checked_when_made(kind: type, name: str):
    """Nothing of another type gets in, by whichever door; nothing that is no number is one."""
    hint = checks.hints(kind)[name]
    members = set(typing.get_args(hint)) - {type(None)}
    bad: list[Any] = [object(), {"a": 1}, [object()], "misspelt", b"1", 1j, np.zeros(2)]
    if hint is str:
        bad.remove("misspelt")
    if hint in (int, float) or members & {int, float}:
        bad += [True, np.nan, np.inf, -np.inf, 10**400, np.float32("nan"), "1"]
    if hint is int or (int in members and not members & {float}):
        bad += [1.5, np.float64(2.0)]
    if hint is bool:
        bad += [0, 1, None, "true"]
    for value in bad:
        with pytest.raises(InputError) as caught:
            kind(**{name: value})
        assert "\n" not in str(caught.value)
        assert name.replace("_", "-") in str(caught.value)


@pytest.mark.parametrize("kind", RECORDS)
def test_trust_20_defaults_fit_their_own_types_and_so_do_numbers_of_numpy(kind: type):
    record = kind()
    for name, hint in checks.hints(kind).items():
        value = getattr(record, name)
        assert checks.fits(value, hint), name
        same: Any = value
        if isinstance(value, tuple):
            same = [np.int64(item) for item in value]
        elif isinstance(value, int) and not isinstance(value, bool):
            same = np.int64(value)
        elif isinstance(value, float):
            same = np.float64(value)
        again = dataclasses.replace(record, **{name: same})
        assert again == record and type(getattr(again, name)) is type(value), name
        if not dataclasses.is_dataclass(value):
            json.dumps(getattr(again, name))


def test_numpy_numbers_may_be_among_the_choices():
    assert GACConfig(slack=np.int64(1)).slack == 1  # type: ignore[arg-type]
    assert type(GACConfig(slack=np.int64(1)).slack) is int  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "settings", "sentence"),
    [
        (
            GACConfig,
            {"exploration": "entorpy"},
            "exploration must be one of kappa, entropy, none, got 'entorpy'",
        ),
        (GACConfig, {"scale": "Learned"}, "scale must be one of fixed, learned, got 'Learned'"),
        (GACConfig, {"slack": True}, "slack must be one of auto, 0, 1, 2, got 'True'"),
        (GACConfig, {"slack": 1.0}, "slack must be one of auto, 0, 1, 2, got '1.0'"),
        (GACConfig, {"critic_action": "clipped"}, "critic-action must be one of executed, raw"),
        (GACConfig, {"gamma": "0.99"}, "gamma must be a finite number, got '0.99'"),
        (GACConfig, {"actor": {"hidden_sizes": (8,)}}, "actor must be NetworkConfig"),
        (GACConfig, {"n_step": 0}, "n-step must be greater than 0, got 0"),
        (GACConfig, {"policy_delay": 0}, "policy-delay must be greater than 0"),
        (GACConfig, {"weight_decay": -1e-4}, "weight-decay must be 0 or more"),
        (TD3Config, {"actor_lr_halving": 0}, "actor-lr-halving must be greater than 0"),
        (GACConfig, {"alpha_init": 0.0}, "alpha-init must be greater than 0"),
        (SACConfig, {"log_std_min": 2.0}, "log-std-min must be less than log-std-max, got 2.0 and 2.0"),
        (TD3Config, {"noise_clip": -0.1}, "noise-clip must be 0 or more"),
        (PPOConfig, {"gae_lambda": 1.5}, "gae-lambda must be in [0, 1]"),
        (PPOConfig, {"rollout": 63}, "cannot be split into 32 minibatches of at least 2"),
        (PPOConfig, {"value_hidden_sizes": []}, "hidden-sizes must be 1 to 16 widths"),
        (
            RunOptions,
            {"vectorization": "asnyc"},
            "vectorization must be one of sync, async, envpool, got 'asnyc'",
        ),
        (RunOptions, {"timesteps": 0}, "timesteps must be greater than 0"),
        (RunOptions, {"timesteps": 1e6}, "timesteps must be a whole number, got '1000000.0'"),
        (RunOptions, {"seed": -1}, "seed must be a whole number from 0 to 4,294,967,295, got -1"),
        (RunOptions, {"seed": 2**32}, "seed must be a whole number from 0 to 4,294,967,295"),
        (RunOptions, {"eval_steps": 0}, "eval-steps must be greater than 0"),
        (RunOptions, {"evaluations": -1}, "evaluations must be 0 or more"),
        (
            RunOptions,
            {"checkpoint_minutes": float("nan")},
            "checkpoint-minutes must be a finite number, got 'nan'",
        ),
    ],
)
def test_trust_03_misspelt_and_impossible_choices_of_every_kind(
    kind: type, settings: dict[str, Any], sentence: str
):
    with pytest.raises(InputError) as caught:
        kind(**settings)
    assert sentence in str(caught.value)


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


@pytest.mark.parametrize("algorithm", sorted(REGISTRY))
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


def test_a_run_takes_the_configuration_of_its_algorithm():
    settings: Any = SACConfig()
    with pytest.raises(InputError, match="gac takes a GACConfig, got SACConfig"):
        RunConfig(env="x", algorithm="gac", settings=settings)
    with pytest.raises(InputError, match="gac takes a GACConfig, got int"):
        RunConfig(env="x", algorithm="gac", settings=3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="unknown algorithm 'gca': did you mean gac"):
        RunConfig(env="x", algorithm="gca", settings=settings)
    with pytest.raises(InputError, match="env must be a text"):
        RunConfig(env=3, algorithm="sac", settings=settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("algorithm", ["gac", "sac", "td3", "ppo"])
def test_a_run_of_version_0_1_is_read(algorithm: str):
    """It had one width for all networks, and none of the settings that came later."""
    kind = type(defaults(algorithm))
    data = RunConfig(env="Ant-v5", algorithm=algorithm, settings=defaults(algorithm)).to_json()
    settings = data["settings"]
    for name in ("actor", "critic", "value_hidden_sizes", "n_step", "weight_decay"):
        settings.pop(name, None)
    if kind is not TD3Config:
        settings.pop("policy_delay", None)
    if issubclass(kind, OffPolicyConfig):
        settings.pop("normalize_obs")
    del data["eval_steps"]
    read = RunConfig.from_json(json.loads(json.dumps(data | {"settings": settings | {"hidden_size": 48}})))
    expected: AlgorithmConfig = kind()
    actor = dataclasses.replace(expected.actor, hidden_sizes=(48, 48))
    if isinstance(expected, OffPolicyConfig):
        critic = dataclasses.replace(expected.critic, hidden_sizes=(48, 48))
        expected = dataclasses.replace(expected, actor=actor, critic=critic)
    else:
        expected = dataclasses.replace(expected, actor=actor, value_hidden_sizes=(48, 48))  # type: ignore[call-arg]
    assert read.settings == expected
    assert read.eval_steps == RunOptions().eval_steps


def test_nested_settings_survive_json():
    settings = GACConfig(
        actor=NetworkConfig((8, 4, 2), "silu", True),
        critic=CriticConfig(count=5, hidden_sizes=(7,), target_subset=2, dropout=0.01),
    )
    config = RunConfig(env="Ant-v5", algorithm="gac", settings=settings)
    assert RunConfig.from_json(json.loads(json.dumps(config.to_json()))) == config


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (
            {"settings": {"actor": {"hidden_sizes": [8], "width": 3}}},
            "unknown setting of gac's actor 'width'",
        ),
        ({"settings": {"actor": 3}}, "actor must be NetworkConfig"),
        ({"settings": {"critic": {"count": 0}}}, "count must be greater than 0"),
        ({"settings": {"gamma": None}}, "gamma must be a finite number"),
        ({"settings": {"gamma": 10**400}}, "gamma must be a finite number"),
        ({"settings": None}, "names no algorithm"),
        ({"algorithm": 3}, "names no algorithm"),
        ({"algorithm": "gca"}, "did you mean gac"),
        ({"env": None}, "env must be a text"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_a_damaged_configuration_is_refused(damage: dict[str, Any], sentence: str):
    data = RunConfig(env="Ant-v5", algorithm="gac", settings=GACConfig()).to_json()
    with pytest.raises(InputError, match=sentence):
        RunConfig.from_json(data | damage)


def test_every_literal_is_spelled_in_its_message():
    for kind in RECORDS:
        for name, hint in checks.hints(kind).items():
            if typing.get_origin(hint) is Literal:
                with pytest.raises(InputError) as caught:
                    kind(**{name: "?"})
                assert all(str(member) in str(caught.value) for member in typing.get_args(hint))


@pytest.mark.parametrize(("count", "number"), [(1, 0), (3, 0), (4, 1), (8, 2), (15, 3)])
def test_a_quarter_of_the_environments_practises_and_never_all(count: int, number: int):
    assert GACConfig(practice_share=0.25, practice_steps=60).practice(count) == (number, 60)
    assert GACConfig().practice(count)[0] == PPOConfig().practice(count)[0] == 0
