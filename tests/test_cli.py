"""The command line as a user meets it: what bad input gets, and a whole session."""

import dataclasses
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from geoact import __version__, commands
from geoact.checks import DERIVED
from geoact.cli import main
from geoact.commands import play
from geoact.config import REGISTRY
from geoact.storage.runs import Run

TINY = [
    "--timesteps",
    "64",
    "--num-envs",
    "2",
    *("--actor.hidden-sizes", "8", "8"),
    *("--critic.hidden-sizes", "8", "8"),
    "--batch-size",
    "8",
    "--buffer-size",
    "100",
]
QUICK = [*TINY, "--evaluations", "1", "--eval-episodes", "1", "--log-points", "4"]


def geoact(*arguments: str, **options) -> subprocess.Popen:
    command = [sys.executable, "-m", "geoact.cli", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    runs = tmp_path_factory.mktemp("runs")
    assert main(["train", "tests.probes:Reach-v0", *QUICK, "--threads", "1", "--runs-dir", str(runs)]) == 0
    return next(runs.iterdir())


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["trian", "HalfCheetah-v5"], "did you mean train"),
        (["train", "HalfCheeta-v5"], "did you mean HalfCheetah-v5"),
        (["train", "CartPole-v1"], "Discrete action space"),
        (["train", "tests.probes:Unbounded-v0"], "unbounded action box"),
        (["train", "tests.probes:Image-v0"], "image observations"),
        (["train", "tests.probes:Words-v0"], "do not flatten"),
        (["train", "no_such_module:Thing-v0"], "cannot import"),
        (["train", "Pendulum-v1", "--algorithm", "gca"], "did you mean gac"),
        (["train", "Pendulum-v1", "--slack", "0"], "use --slack 1"),
        (["train", "Pendulum-v1", "--timesteps", "0"], "timesteps must be greater than 0"),
        (["train", "Pendulum-v1", "--timesteps", "-5"], "timesteps must be greater than 0"),
        (["train", "Pendulum-v1", "--num-envs", "0"], "num-envs must be greater than 0"),
        (["train", "Pendulum-v1", "--seed", "-1"], "seed must be"),
        (["train", "Pendulum-v1", "--threads", "-1"], "threads must be 0 or more"),
        (["train", "Pendulum-v1", "--radius", "-1"], "radius must be greater than 0"),
        (["train", "Pendulum-v1", "--batch-size", "0"], "batch-size must be greater than 0"),
        (["train", "Pendulum-v1", "--concentration", "fixed"], "add --exploration none"),
        (["train", "Pendulum-v1", "--buffer-size", "10000000000000"], "GB of memory is free"),
        (["train", "Pendulum-v1", "--runs-dir", "/proc/none"], "cannot write a run into /proc/none"),
        (["evaluate", "no/such/run"], "does not exist"),
        (["evaluate", "tests"], "neither a run nor a policy"),
        (["evaluate", "tests", "--episodes", "0"], "episodes must be greater than 0"),
        (["evaluate", "tests", "--eval-steps", "0"], "eval-steps must be greater than 0"),
        (["list", "--runs-dir", "no/such/folder"], "is not a directory"),
        (["plot", "no/such/run"], "does not exist"),
        (["bench", "everything"], "unknown benchmark"),
        (["bench", "act", "--repeats", "0"], "repeats must be greater than 0"),
        (["train"], "missing: ENV"),
        (["train", "Pendulum-v1", "Hopper-v5"], "Unrecognized options: Hopper-v5"),
        (["train", "Pendulum-v1", "--timesteps", "many"], "--timesteps: expected a whole number, got 'many'"),
        (["train", "Pendulum-v1", "--timesteps", "1.5"], "--timesteps: expected a whole number, got '1.5'"),
        (["train", "Pendulum-v1", "--timesteps", "1e400"], "--timesteps: expected a whole number"),
        (["train", "Pendulum-v1", "--timesteps"], "Missing value for argument '--timesteps'"),
        (["train", "Pendulum-v1", "--timestep", "5"], "unknown option --timestep: did you mean --timesteps?"),
        (["train", "Pendulum-v1", "--slack", "7"], "Expected one of ('auto', '0', '1', '2')"),
        (
            ["train", "Pendulum-v1", "--algorithm", "sac", "--slack", "1"],
            "--slack is an option of gac, gac-scale, gac-fast; this is sac",
        ),
        (
            ["train", "Pendulum-v1", "--algorithm", "ppo", "--tau=1"],
            "--tau is an option of gac, gac-scale, gac-fast, sac, sac-fast, td3",
        ),
        (["train", "Pendulum-v1", "--seed", "12345678901234567890"], "seed must be"),
        (["train", "Pendulum-v1", "--radius", "inf"], "--radius: expected a finite number, got 'inf'"),
        (["train", "Pendulum-v1", "--radius", "nan"], "--radius: expected a finite number, got 'nan'"),
        (["train", "Pendulum-v1", "--actor-lr", "inf"], "--actor-lr: expected a finite number, got 'inf'"),
        (
            ["train", "Pendulum-v1", "--checkpoint-minutes", "inf"],
            "--checkpoint-minutes: expected a finite number",
        ),
        (
            ["train", "Pendulum-v1", "--critic-lr", "-inf"],
            "--critic-lr: expected a finite number, got '-inf'",
        ),
        (["train", "Pendulum-v1", "--gamma", "nan"], "--gamma: expected a finite number, got 'nan'"),
        (["train", "Pendulum-v1", "--timesteps", "inf"], "--timesteps: expected a whole number, got 'inf'"),
        (["train", "Pendulum-v1", "--exploration", "entropyy"], "'entropyy'"),
        (["train", "tests.probes:OldReset-v0"], "has the interface of the old gym"),
        (["train", "Pendulum-v1", "--tag", "two words"], "a tag is one word"),
        (["train", "Pendulum-v1", "--config", "no/such.toml"], "cannot read the configuration no/such.toml"),
        (["train", ":"], "':'"),
        (["train", "tests.probes:"], "unknown environment ''"),
        (["envs", ":"], "':'"),
        (["evaluate", "tests", "--seed", "-1"], "seed must be between 0 and"),
        (["evaluate", "tests", "--seed", "12345678901234567890"], "seed must be between 0 and"),
        (["evaluate", "tests", "--epsiodes", "3"], "did you mean --episodes?"),
        (["evaluate", "zoo:halfcheetah", "--env", ":"], "':'"),
        (
            ["evaluate", "zoo:halfcheetah", "--env", "Pendulum-v1"],
            "give the environment that it was trained on",
        ),
        (["evaluate", "zoo:halfcheetah", "--env", "CartPole-v1"], "Discrete action space"),
        (["play", "tests", "--seed", "-1"], "seed must be between 0 and"),
        (["card", "tests", "--out", "card", "--seed", "-1"], "seed must be between 0 and"),
        (["card", "tests"], "missing: --out"),
        (["analyze", "entropy", "--seed", "-1"], "seed must be between 0 and"),
        (["resume", "no/such/run"], "does not exist"),
        (["paper", "table9"], "unknown table or figure 'table9'"),
        (["report", "--runs-dir", "no/such/folder"], "is not a directory"),
        (["compare", "--runs", "no/such/folder"], "is not a directory"),
        (["sweep", "table9"], "unknown experiment 'table9'"),
        (["sweep", "table1", "--tasks"], "--tasks: expected at least one value"),
        (["sweep", "table1", "--jobs", "-1"], "jobs must be 0 or more"),
        (["sweep", "table1", "--copy-every", "0"], "copy-every must be greater than 0"),
        (["list", "--sort", "size"], "invalid choice 'size'"),
        (["list", "--state", "tired"], "invalid choice 'tired'"),
        (["delete"], "give at least one run"),
        (["delete", "no/such/run"], "does not exist"),
        (["tag", "no/such/run"], "does not exist"),
        (["--print-completion", "powershell"], "needs one of bash, zsh, tcsh"),
        (["--nonsense"], "unknown command '--nonsense'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_one_line_and_exit_code_2(arguments, sentence, capsys, tmp_path, monkeypatch):
    if arguments[0] == "train" and "--runs-dir" not in arguments:
        arguments = [*arguments, "--runs-dir", str(tmp_path / "runs")]
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert error.startswith("geoact: ")
    assert error.count("\n") == 1
    assert not (tmp_path / "runs").exists()  # nothing half-written


@pytest.mark.parametrize("probe", ["BrokenObservation", "BrokenReward"])
def test_a_broken_environment_fails_the_run(probe, capsys, tmp_path):
    assert (
        main(["train", f"tests.probes:{probe}-v0", *QUICK, "--threads", "1", "--runs-dir", str(tmp_path)])
        == 1
    )
    output = capsys.readouterr()
    assert "non-finite" in output.err and "environment 0" in output.err
    assert "Traceback" not in output.err
    run = Run(next(tmp_path.iterdir()))
    assert output.out.strip().splitlines()[-1] == f"run: {run.path}"
    status = run.status()
    assert status["state"] == "failed"
    assert "non-finite" in status["reason"]


def test_a_free_kappa_diverges_and_says_so(capsys, tmp_path):
    """The paper's rule to the letter: -kappa is a bonus without bound (docs/theory.md)."""
    rates = ["--actor-lr", "0.03", "--critic-lr", "0.03", "--log-points", "200", "--evaluations", "0"]
    arguments = [*QUICK, "--timesteps", "20000", "--concentration", "free", *rates, "--threads", "1"]
    code = main(
        ["train", "tests.probes:Endless-v0", "--algorithm", "gac", *arguments, "--runs-dir", str(tmp_path)]
    )
    output = capsys.readouterr()
    assert "known to diverge" in output.out
    assert code == 1
    assert "diverged" in output.err and "use --concentration softplus" in output.err
    assert Run(next(tmp_path.iterdir())).status()["state"] == "failed"


def test_a_run_directory_holds_what_it_should(trained):
    run = Run(trained)
    assert run.status() == {"state": "finished", "timesteps": 64, "total": 64}
    config = run.config()
    assert (config.env, config.algorithm, config.settings.actor.hidden_sizes) == (
        *("tests.probes:Reach-v0", "gac-fast"),
        (8, 8),
    )
    rows = run.metrics()
    assert [row["step"] for row in rows] == [16, 32, 48, 64]
    last = rows[-1]
    for name in (
        "charts/SPS",
        "losses/qf_loss",
        "losses/actor_loss",
        "policy/kappa",
        "policy/weight",
        "policy/clipped",
    ):
        assert name in last
    assert "eval/return_mean" in last
    assert list(trained.glob("events.*"))
    for folder in ("policy", "best"):
        assert {file.name for file in (trained / folder).iterdir()} == {"policy.json", "policy.safetensors"}


def test_evaluate_gives_the_trainings_own_number(trained, capsys):
    assert main(["evaluate", str(trained), "--episodes", "1", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["return_mean"] == Run(trained).metrics()[-1]["eval/return_mean"]
    assert main(["evaluate", str(trained / "best"), "--episodes", "2", "--stochastic"]) == 0
    assert "over 2 episodes" in capsys.readouterr().out


@pytest.mark.parametrize("given", [".", "policy", "best", "policy/policy.json"])
def test_trust_07_a_clip_lies_in_the_run_and_not_in_its_policy(trained, given):
    assert play._home(trained / given) == trained


def test_list_and_plot(trained, capsys):
    assert main(["list", "--runs-dir", str(trained.parent)]) == 0
    assert "finished" in capsys.readouterr().out
    picture = trained / "curve.png"
    assert main(["plot", str(trained), "--out", str(picture)]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert main(["plot", str(trained), "--out", "curve.exe"]) == 2


def test_pendulum_says_why_slack_is_used(tmp_path, capfd):
    arguments = ["--algorithm", "gac", *QUICK, "--threads", "1", "--runs-dir", str(tmp_path)]
    assert main(["train", "Pendulum-v1", *arguments]) == 0
    out, err = capfd.readouterr()
    assert "slack 1 is used" in out
    assert out.strip().splitlines()[-1].startswith(f"run: {tmp_path}")
    assert err == ""


def test_ctrl_c_ends_cleanly_with_everything_written(tmp_path):
    long = [*TINY, "--timesteps", "10000000", "--evaluations", "0", "--log-points", "100000"]
    # A shell ignores Ctrl-C on behalf of what runs in its background, and what is ignored stays ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = geoact("train", "tests.probes:Reach-v0", *long, "--threads", "1", "--runs-dir", str(tmp_path))
    signal.signal(signal.SIGINT, before)
    try:
        deadline = time.time() + 120
        while time.time() < deadline and not any(f.stat().st_size for f in tmp_path.glob("*/metrics.jsonl")):
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130, err
    assert err == ""
    run = Run(next(tmp_path.iterdir()))
    assert out.strip().splitlines()[-1] == f"run: {run.path}"
    assert run.status()["state"] == "stopped"
    assert run.metrics()


HEAVY = ("jax", "gymnasium", "tyro", "numpy", "rich", "matplotlib")


@pytest.mark.parametrize("how", [["--help"], [], ["--version"]])
def test_help_starts_at_once_and_imports_nothing_heavy(how):
    script = (
        "import sys; from geoact.cli import main; code = main(sys.argv[1:]); "
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr); sys.exit(code)"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    result = subprocess.run([sys.executable, "-c", script, *how], capture_output=True, text=True)
    seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    assert result.returncode == 0
    assert result.stderr.strip() == "[]"
    assert result.stdout.startswith("geoact ")
    assert seconds < 0.3  # of the processor's time, so that a busy machine does not count


@pytest.mark.parametrize("name", sorted(commands.find()))
def test_every_command_explains_itself(name, capsys, monkeypatch):
    """The summary, every option with a sentence, and the flags that shells and messages know are the real ones."""
    monkeypatch.setenv("COLUMNS", "200")
    command = commands.find()[name]
    assert command.summary[0].isupper() and not command.summary.endswith(".") and len(command.summary) < 90
    assert dataclasses.is_dataclass(command.options())
    assert main([name, "--help"]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"usage: geoact {name} ")
    assert command.summary in text
    options = re.findall(r"^[│ ] +(-\S.*)$", text, re.MULTILINE)
    shown = {flag for line in options for flag in re.findall(r"(?<!\S)--[a-z][a-z.-]*", line.split("   ")[0])}
    known = set(commands.find()[name].flags())
    assert shown <= known
    if name != "train":  # whose help shows the settings of one algorithm
        assert known == shown
    for line in options:
        assert not re.search(r" {2}\(", line), f"without a sentence: {line}"


@pytest.mark.parametrize("algorithm", REGISTRY)
def test_train_help_shows_the_algorithms_own_settings(algorithm, capsys):
    assert main(["train", "--algorithm", algorithm, "--help"]) == 0
    text = capsys.readouterr().out
    for field in dataclasses.fields(REGISTRY[algorithm].config):
        derived = field.metadata == DERIVED
        assert (f"--{field.name.replace('_', '-')}" in text) is not derived, field.name


def test_a_command_is_a_module_and_nothing_else():
    """No list to add a command to: every public module of the folder is one."""
    folder = Path(commands.__file__).parent
    modules = {path.stem for path in folder.glob("*.py") if not path.stem.startswith("_")}
    assert set(commands.find()) == {stem.removesuffix("_") for stem in modules}
    assert {"train", "list", "import", "tag", "delete"} <= set(commands.find())


def test_python_dash_m():
    result = subprocess.run([sys.executable, "-m", "geoact", "--version"], capture_output=True, text=True)
    assert (result.returncode, result.stdout, result.stderr) == (0, f"geoact {__version__}\n", "")


def through_a_closed_pipe(*arguments: str) -> tuple[int, str]:
    """Exit code and errors of a command whose reader has gone before it says anything."""
    reading, writing = os.pipe()
    os.close(reading)
    process = subprocess.run(
        [sys.executable, "-m", "geoact", *arguments], stdout=writing, stderr=subprocess.PIPE, text=True
    )
    os.close(writing)
    return process.returncode, process.stderr


def test_trust_11_an_evaluation_without_end_is_cut_with_a_note(tmp_path, capsys):
    train = ["train", "tests.probes:Endless-v0", *QUICK, "--eval-steps", "5", "--runs-dir", str(tmp_path)]
    assert main(train) == 0
    assert "(1 episodes cut off at 5 steps)" in capsys.readouterr().out
    path = str(next(tmp_path.iterdir()))
    assert main(["evaluate", path, "--episodes", "2", "--eval-steps", "7"]) == 0
    told = capsys.readouterr()
    assert told.err == (
        "note: 2 of 2 episodes had not ended after 7 steps and count as far as they went\n"
    ) and told.out.endswith("over 2 episodes (length 7)\n")


def test_a_reader_that_leaves_is_no_error(trained):
    assert through_a_closed_pipe("list", "--runs-dir", str(trained.parent)) == (0, "")
    assert through_a_closed_pipe("--help") == (0, "")
    assert through_a_closed_pipe("list", "--help") == (0, "")


def test_trust_08_a_reader_that_leaves_does_not_end_a_training(tmp_path):
    """`geoact train ... | head -3` trains on."""
    command = ["train", "tests.probes:Reach-v0", *QUICK, "--threads", "1", "--runs-dir", str(tmp_path)]
    assert through_a_closed_pipe(*command) == (0, "")
    assert Run(next(tmp_path.iterdir())).status()["state"] == "finished"


def test_wandb_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real library, in its offline mode: every logged number is in the record that it would upload."""
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    command = ["train", "tests.probes:Reach-v0", *QUICK, "--threads", "1", "--wandb"]
    assert main([*command, "--runs-dir", str(tmp_path)]) == 0
    run = Run(next(tmp_path.iterdir()))
    assert run.config().wandb
    (record,) = run.path.glob("wandb/offline-run-*/*.wandb")
    content = record.read_bytes()
    rows = run.metrics()
    assert len(rows) == 4
    for row in rows:
        for name, value in row.items():
            if "/" in name:
                assert name.encode() in content
                assert json.dumps(value).encode() in content, f"{name} {value}"
    assert list(run.path.glob("events.*")), "TensorBoard is written beside it"


def test_wandb_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)  # what an import sees that finds nothing
    assert main(["train", "tests.probes:Reach-v0", "--wandb", "--runs-dir", str(tmp_path / "runs")]) == 2
    assert "geoact[wandb]" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()
