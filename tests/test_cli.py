"""The command line as a user meets it: what bad input gets, and a whole session."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from geoact.cli import main
from geoact.config import ALGORITHMS
from geoact.runs import Run

TINY = [
    "--timesteps",
    "64",
    "--num-envs",
    "2",
    "--hidden-size",
    "8",
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
        (["train", "Pendulum-v1", "--seed", "-1"], "seed must be 0 or more"),
        (["train", "Pendulum-v1", "--threads", "-1"], "threads must be 0 or more"),
        (["train", "Pendulum-v1", "--radius", "-1"], "radius must be greater than 0"),
        (["train", "Pendulum-v1", "--batch-size", "0"], "batch-size must be greater than 0"),
        (["train", "Pendulum-v1", "--concentration", "fixed"], "add --exploration none"),
        (["train", "Pendulum-v1", "--buffer-size", "10000000000000"], "GB of memory is free"),
        (["train", "Pendulum-v1", "--runs-dir", "/proc/none"], "cannot write a run into /proc/none"),
        (["evaluate", "no/such/run"], "does not exist"),
        (["evaluate", "tests"], "neither a run nor a policy"),
        (["evaluate", "tests", "--episodes", "0"], "episodes must be greater than 0"),
        (["list", "--runs-dir", "no/such/folder"], "is not a directory"),
        (["plot", "no/such/run"], "does not exist"),
        (["bench", "everything"], "unknown benchmark"),
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


def test_flags_that_do_not_parse_exit_with_2(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["train", "Pendulum-v1", "--timesteps", "many"])
    assert caught.value.code == 2


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
    code = main(["train", "tests.probes:Endless-v0", *arguments, "--runs-dir", str(tmp_path)])
    output = capsys.readouterr()
    assert "known to diverge" in output.out
    assert code == 1
    assert "diverged" in output.err and "use --concentration softplus" in output.err
    assert Run(next(tmp_path.iterdir())).status()["state"] == "failed"


def test_a_run_directory_holds_what_it_should(trained):
    run = Run(trained)
    assert run.status() == {"state": "finished", "timesteps": 64, "total": 64}
    config = run.config()
    assert (config.env, config.algorithm, config.settings.hidden_size) == ("tests.probes:Reach-v0", "gac", 8)
    rows = run.metrics()
    assert [row["step"] for row in rows] == [16, 32, 48, 64]
    last = rows[-1]
    for name in (
        "charts/SPS",
        "losses/critic",
        "losses/actor",
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


def test_list_and_plot(trained, capsys):
    assert main(["list", "--runs-dir", str(trained.parent)]) == 0
    assert "finished" in capsys.readouterr().out
    picture = trained / "curve.png"
    assert main(["plot", str(trained), "--out", str(picture)]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert main(["plot", str(trained), "--out", "curve.exe"]) == 2


def test_pendulum_says_why_slack_is_used(tmp_path):
    process = geoact("train", "Pendulum-v1", *QUICK, "--runs-dir", str(tmp_path))
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert "slack 1 is used" in out
    assert out.strip().splitlines()[-1].startswith(f"run: {tmp_path}")
    assert err == ""


def test_ctrl_c_ends_cleanly_with_everything_written(tmp_path):
    long = [*TINY, "--timesteps", "10000000", "--evaluations", "0", "--log-points", "100000"]
    process = geoact("train", "tests.probes:Reach-v0", *long, "--threads", "1", "--runs-dir", str(tmp_path))
    deadline = time.time() + 120
    while time.time() < deadline and not list(tmp_path.glob("*/metrics.jsonl")):
        time.sleep(0.2)
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert err == ""
    run = Run(next(tmp_path.iterdir()))
    assert out.strip().splitlines()[-1] == f"run: {run.path}"
    assert run.status()["state"] == "stopped"
    assert run.metrics()


def test_help_starts_at_once_and_without_jax():
    script = "import sys; from geoact.cli import main; main(['--help']); print('jax' in sys.modules, file=sys.stderr)"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=os.environ)
    assert "train" in result.stdout
    assert result.stderr.strip() == "False"


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


def test_bench_act(capsys) -> None:
    assert main(["bench", "act", "--repeats", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()[2:]
    assert len(lines) == 2 * len(ALGORITHMS)
    for line in lines:
        best, median = map(float, line.split()[-2:])
        assert 0.0 < best <= median
