"""`geoact train` and `resume`: settings, numbers, configurations as files, notes, silence."""

import dataclasses
import json
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

from geoact import config as configuration
from geoact.checks import DERIVED
from geoact.cli import main
from geoact.commands import train
from geoact.commands.resume import Resume
from geoact.commands.resume import run as run_resume
from geoact.commands.train import Train
from geoact.config import REGISTRY, Entry, GACConfig, RunConfig, RunOptions, SACConfig
from geoact.experiments import run_file
from geoact.storage import notes
from geoact.storage.runs import Run, open_run
from tests.test_cli import QUICK
from tests.training_cases import CRITIC, TINY

REACH = "tests.probes:Reach-v0"


@dataclass(frozen=True)
class Group:
    """Settings that belong together."""

    layer_norm: bool = False
    """Normalise the layers."""
    sizes: tuple[int, ...] = (256, 256)
    """Widths of the layers."""
    dropout: float | None = None
    """Share that is dropped."""


@dataclass(frozen=True)
class Nested(SACConfig):
    """An algorithm with settings in a group."""

    group: Group = Group()
    """The group."""


@pytest.fixture
def nested(monkeypatch):
    """An algorithm, known by name, that has a group of settings."""
    entry = Entry(Nested(), "geoact.algorithms.sac", "SAC", "Nested", "#000000")
    monkeypatch.setitem(configuration.REGISTRY, "nested", entry)


def parsed(*words: str) -> Train:
    return train.parse(["Pendulum-v1", *words])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e6", 1_000_000),
        ("1_000_000", 1_000_000),
        ("2.5e3", 2500),
        ("12", 12),
        ("9007199254740993", 2**53 + 1),
    ],
)
def test_whole_numbers(text, value):
    options = parsed("--timesteps", text, "--checkpoint-steps", text, "--batch-size", text)
    assert options.settings is not None
    given = (options.timesteps, options.checkpoint_steps, getattr(options.settings, "batch_size"))  # noqa: B009
    assert given == (value, value, value) and all(type(number) is int for number in given)


def test_settings_have_no_prefix_and_groups_have_theirs(nested):
    words = ["--algorithm", "nested", "--alpha-lr", "0.5", "--group.layer-norm", "--group.sizes", "1e2", "64"]
    options = parsed(*words, "--group.dropout", "0.1")
    assert options.settings == Nested(alpha_lr=0.5, group=Group(True, (100, 64), 0.1))
    assert parsed("--algorithm", "nested").settings == Nested()


def test_an_option_of_another_algorithm_is_named(nested, capsys):
    assert main(["train", "Pendulum-v1", "--group.layer-norm"]) == 2
    assert capsys.readouterr().err == "geoact: --group.layer-norm is an option of nested; this is gac-fast\n"
    assert main(["train", "Pendulum-v1", "--algorithm=nested", "--no-normalize-mixture"]) == 2
    assert (
        "--no-normalize-mixture is an option of gac, gac-scale, gac-fast; this is nested"
        in capsys.readouterr().err
    )


def printed(capsys, *words: str) -> str:
    assert main(["train", "Pendulum-v1", *words, "--print-config"]) == 0
    return capsys.readouterr().out


CONFIGURATIONS = {
    **{name: ("--algorithm", name) for name in REGISTRY},
    "changed": (
        "--timesteps",
        "1e5",
        "--seed",
        "7",
        "--radius",
        "2",
        "--slack",
        "1",
        "--no-keep-checkpoints",
    ),
    "small": (
        "--algorithm",
        "sac",
        "--actor-lr",
        "1e-5",
        "--target-entropy",
        "-0.1",
        "--checkpoint-steps",
        "500",
    ),
    "nested": (
        "--algorithm",
        "nested",
        "--group.sizes",
        "3",
        "4",
        "--group.dropout",
        "1e-7",
        "--gamma",
        "0.9",
    ),
}


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_a_printed_configuration_read_back_is_the_same(name, nested, capsys, tmp_path):
    words = CONFIGURATIONS[name]
    file = tmp_path / "run.toml"
    file.write_text(printed(capsys, *words))
    again = train.parse(["--config", str(file)])
    assert again == parsed(*words)
    assert again.config() == run_file.read(file).config() == parsed(*words).config()
    assert json.dumps(again.config().to_json()) == json.dumps(parsed(*words).config().to_json())


def test_a_printed_configuration_is_complete(nested, capsys):
    text = printed(capsys, "--algorithm", "nested", "--group.layer-norm")
    data = tomllib.loads(text)
    assert (data["env"], data["algorithm"], data["num_envs"]) == ("Pendulum-v1", "nested", 8)
    assert data["settings"]["group"] == {"layer_norm": True, "sizes": [256, 256]}
    for field in dataclasses.fields(RunOptions):
        assert field.name in text
    for field in (*dataclasses.fields(Nested), *dataclasses.fields(Group)):
        assert (field.name in text) is (field.metadata != DERIVED), field.name


def test_strings_survive(tmp_path):
    config = RunConfig(env='a"b\\c\n\x7f\u00e9\U0001f600', algorithm="gac", settings=GACConfig())
    file = tmp_path / "run.toml"
    file.write_text(run_file.write(config), encoding="utf-8")
    assert run_file.read(file).config() == config


def test_options_change_what_a_file_says(tmp_path, capsys):
    file = tmp_path / "run.toml"
    file.write_text('env = "Pendulum-v1"\nalgorithm = "sac"\nseed = 3\n[settings]\ngamma = 0.9\ntau = 1\n')
    options = train.parse(["--config", str(file), "--seed", "4", "--tau", "0.5"])
    assert (options.env, options.algorithm, options.seed) == ("Pendulum-v1", "sac", 4)
    assert options.settings == SACConfig(gamma=0.9, tau=0.5)
    assert train.parse(["Hopper-v5", f"--config={file}"]).env == "Hopper-v5"
    capsys.readouterr()
    assert train.parse(["--config", str(file), "--algorithm", "td3"]).settings == REGISTRY["td3"].config
    assert "are sac's and left out: this is td3" in capsys.readouterr().err


def test_a_file_need_not_name_the_environment(tmp_path, capsys):
    file = tmp_path / "run.toml"
    file.write_text("seed = 3\n")
    assert train.parse(["Hopper-v5", "--config", str(file)]).config().seed == 3
    assert main(["train", "--config", str(file)]) == 2
    assert "missing: ENV" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("sead = 3", "line 1, sead: unknown key 'sead': did you mean seed"),
        ("[settings]\nradiuss = 3", "line 2, settings.radiuss: unknown key 'radiuss': did you mean radius"),
        ("seed = 1.5", "line 1, seed: must be a whole number, got 1.5"),
        ('[settings]\nslack = "two"', "line 2, settings.slack: must be one of auto, 0, 1, 2, got 'two'"),
        ("[settings]\nradius = -1", "settings: radius must be greater than 0, got -1.0"),
        ("timesteps = -1", "timesteps must be greater than 0, got -1"),
        ("[settings]\nradius = inf", "settings.radius: must be a"),
        ('algorithm = "gca"', "line 1, algorithm: unknown algorithm 'gca': did you mean gac"),
        ("env = 5", "line 1, env: must be a text, got 5"),
        ("settings = 5", "line 1, settings: must be a table"),
        ('algorithm = "nested"\n[settings]\ngroup = 5', "line 3, settings.group: must be a table"),
        (
            'algorithm = "nested"\n[settings.group]\nwide = 5',
            "line 3, settings.group.wide: unknown key 'wide'",
        ),
        ("seed = ", "is not TOML"),
        ("a = " + "[" * 20_000, "is not"),
    ],
)
def test_a_wrong_file_is_one_line_with_file_and_key(text, sentence, nested, tmp_path, capsys):
    file = tmp_path / "wrong.toml"
    file.write_text(text)
    assert main(["train", "Pendulum-v1", "--config", str(file), "--runs-dir", str(tmp_path / "runs")]) == 2
    error = capsys.readouterr().err
    assert sentence in error and str(file) in error
    assert error.startswith("geoact: ") and error.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_a_json_file_that_does_not_fit_is_named(tmp_path, capsys):
    file = tmp_path / "run.json"
    file.write_text('{"config": {"env": "Pendulum-v1", "algorithm": "sac", "settings": {"radiuss": 1}}}')
    assert main(["train", "--config", str(file)]) == 2
    error = capsys.readouterr().err
    assert str(file) in error and "radiuss" in error and error.count("\n") == 1


def test_a_run_on_an_environment_that_has_no_name_is_not_repeated_on_another(tmp_path, capsys):
    config = RunConfig("Pendulum-v1", "gac", GACConfig(), env_given="an environment given in Python")
    file = tmp_path / "run.json"
    file.write_text(json.dumps({"config": config.to_json()}))
    assert main(["train", "--config", str(file)]) == 2
    assert "an environment given in Python, which cannot be made from its name" in capsys.readouterr().err


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Run:
    runs = tmp_path_factory.mktemp("runs")
    words = ["--tag", "first", "--tag", "small", "--tag", "first", "--note", "to be compared", "--quiet"]
    assert main(["train", REACH, *QUICK, "--threads", "1", *words, "--runs-dir", str(runs)]) == 0
    return open_run(next(runs.iterdir()))


def test_tags_and_a_note_are_kept_beside_the_run(trained):
    assert notes.read(trained.path) == notes.Notes(("first", "small"), "to be compared")
    assert json.loads((trained.path / "notes.json").read_text())["tags"] == ["first", "small"]


def test_run_json_repeats_a_run_bit_for_bit(trained, tmp_path, capsys):
    again = ["train", "--config", str(trained.path / "run.json"), "--quiet", "--runs-dir", str(tmp_path)]
    assert main(again) == 0
    (path,) = tmp_path.iterdir()
    assert capsys.readouterr().out == f"run: {path}\n"
    assert open_run(path).config() == trained.config()
    tensors = Path("policy") / "policy.safetensors"
    assert (path / tensors).read_bytes() == (trained.path / tensors).read_bytes()


def test_settings_worked_out_for_another_environment_are_pointed_out(trained, capsys):
    options = train.parse(["Hopper-v5", "--config", str(trained.path)])
    # What follows from the run's length is worked out anew.
    assert options.settings == dataclasses.replace(trained.config().settings, planned_updates=None)
    assert f"worked out for {REACH}; they are kept for Hopper-v5" in capsys.readouterr().err


def test_quiet_and_by_name(trained, capsys):
    where = ["--runs-dir", str(trained.path.parent)]
    assert main(["resume", trained.path.name, *where, "--timesteps", "96", "--quiet"]) == 0
    assert capsys.readouterr().out == f"run: {trained.path}\n"
    assert trained.status()["timesteps"] == 96
    assert main(["evaluate", trained.path.name, *where, "--episodes", "1"]) == 0
    assert REACH in capsys.readouterr().out


def test_from_python(tmp_path, capsys):
    """Commands are functions of typed data."""
    settings = SACConfig(batch_size=8, buffer_size=100, actor=TINY, critic=CRITIC)
    options = Train(
        REACH, algorithm="sac", settings=settings, timesteps=32, num_envs=2, evaluations=1, eval_episodes=1
    )
    assert train.run(dataclasses.replace(options, runs_dir=tmp_path, quiet=True, threads=1)) == 0
    (path,) = tmp_path.iterdir()
    assert open_run(path).config().algorithm == "sac"
    assert run_resume(Resume(path)) == 0
    assert "is finished" in capsys.readouterr().out
