"""How the numerics are set up: what is set where nothing was, and what stays."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from geoact.training import backend

NAMES = (
    "NPROC",
    "XLA_FLAGS",
    "OPENBLAS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
)


@pytest.fixture
def clean(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in NAMES:
        monkeypatch.setenv(name, "")  # so that it is put back afterwards
        monkeypatch.delenv(name)
    monkeypatch.setattr(backend, "available_cores", lambda: [0, 1])
    return monkeypatch


def test_all_cores_are_xlas_own_choice(clean):
    backend.set_threads(0)
    assert "NPROC" not in os.environ and "XLA_FLAGS" not in os.environ
    assert os.environ["OPENBLAS_NUM_THREADS"] == "1"


def test_one_thread_is_one_thread_everywhere(clean):
    clean.setenv("XLA_FLAGS", "--mine")
    for _ in range(2):
        backend.set_threads(1)
    assert os.environ["NPROC"] == "1"
    assert os.environ["XLA_FLAGS"] == "--mine --xla_cpu_multi_thread_eigen=false"


def test_what_the_user_has_set_stays(clean):
    clean.setenv("OMP_NUM_THREADS", "4")
    backend.set_threads(3)
    assert (os.environ["OMP_NUM_THREADS"], os.environ["NPROC"]) == ("4", "3")


IN_TURN = """
import os
os.sched_setaffinity(0, set(map(int, "{cores}".split(","))))
from geoact.training import backend
backend.set_threads(1)
backend.set_up_jax()
import jax, jax.numpy as jnp
work = jax.jit(lambda x: jax.lax.fori_loop(0, 200, lambda i, x: x @ x * 1e-3, x))
jax.block_until_ready(work(jnp.ones((256, 256))))
print(work(jnp.ones((256, 256))).is_ready())
"""


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="only Linux pins processes")
def test_on_a_single_core_nothing_runs_beside_the_update():
    cores = sorted(os.sched_getaffinity(0))
    for chosen in {tuple(cores[:1]), tuple(cores[:2])}:
        program = IN_TURN.format(cores=",".join(map(str, chosen)))
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        assert done.stdout.split()[-1] == str(len(chosen) == 1)


def test_where_compiled_programs_are_kept(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("GEOACT_CACHE", raising=False)
    assert backend.cache_folder() == tmp_path / "cache" / "geoact" / "xla"
    monkeypatch.setenv("GEOACT_CACHE", str(tmp_path / "mine"))
    assert backend.cache_folder() == tmp_path / "mine" / "xla"


def test_a_home_that_cannot_be_written_costs_only_the_compilation(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(backend, "cache_folder", lambda: Path(tmp_path / "file" / "xla"))
    backend.set_up_jax()
