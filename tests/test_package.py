"""The wheel, as a user installs it: in an environment of its own, without the lock (`make test-package`).

The interpreter that runs the test is the one that the wheel is tried with.
"""

import os
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest

import geoact

ROOT = Path(__file__).parents[1]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = SETTINGS["project"]
SMALL = ("--timesteps", "200", "--num-envs", "2", "--evaluations", "1", "--eval-episodes", "1")


def test_versions_agree():
    assert PROJECT["version"] == geoact.__version__
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"version: {geoact.__version__}\n" in citation
    assert f"## {geoact.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_every_file_beside_the_modules_goes_into_the_wheel():
    package = ROOT / "geoact"
    named = SETTINGS["tool"]["setuptools"]["package-data"]["geoact"]
    held = {path for pattern in named for path in package.glob(pattern)}
    assert {p for p in package.rglob("*") if p.is_file() and p.suffix not in (".py", ".pyc")} <= held


def test_the_extra_all_has_what_a_user_can_ask_for():
    extras = PROJECT["optional-dependencies"]
    (everything,) = extras["all"]
    named = set(everything.partition("[")[2].rstrip("]").split(","))
    # EnvPool has no wheels for all of the tested versions; the others are for those who work on geoact.
    assert named == set(extras) - {"all", "envpool", "bench", "docs", "dev"}


def test_hooks_and_workflow_call_what_there_is():
    targets = {line.split(":")[0] for line in (ROOT / "Makefile").read_text().splitlines() if ":" in line}
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    called = {line.split("make ")[1].strip() for line in workflow.splitlines() if "run: make " in line}
    assert called and called <= targets
    hooks = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    assert "repo: local" in hooks and hooks.count("repo: ") == 1


@pytest.mark.slow
def test_the_wheel_trains_evaluates_reports_and_exports(tmp_path: Path):
    def call(*command: object) -> str:
        plain = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run(
            [str(word) for word in command],
            cwd=tmp_path,
            env=plain,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    call(sys.executable, "-m", "build", "--outdir", tmp_path / "dist", ROOT)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    assert list((tmp_path / "dist").glob("*.tar.gz"))
    venv.create(tmp_path / "env", with_pip=True)
    bin_ = tmp_path / "env" / "bin"
    call(bin_ / "pip", "install", "--quiet", f"{wheel}[onnx,tune]")
    assert geoact.__version__ in call(bin_ / "geoact", "--version")
    out = call(bin_ / "geoact", "train", "Pendulum-v1", *SMALL)
    run = out.rpartition("run: ")[2].strip()
    assert "return" in call(bin_ / "geoact", "evaluate", run, "--episodes", "1")
    call(bin_ / "geoact", "report", "--out", "report.html")
    assert "Pendulum-v1" in (tmp_path / "report.html").read_text(encoding="utf-8")
    call(bin_ / "geoact", "export", run, "--out", "policy.onnx")
    assert (tmp_path / "policy.onnx").stat().st_size > 1000
    call(bin_ / "geoact", "evaluate", "zoo:halfcheetah", "--episodes", "1")
    small = (*SMALL[:2], "--num-envs", "2", "--evaluations", "1", "--eval-episodes", "1")
    call(bin_ / "geoact", "tune", "Pendulum-v1", *small, "--trials", "2", "--confirm", "0")
