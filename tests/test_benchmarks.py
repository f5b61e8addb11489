"""The benchmark's arithmetic: the counted work of an update, and what the page says about given measurements."""

import csv
import dataclasses
import json
import os
import shutil
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from benchmarks import baselines, lengths, report, returns, run, worker
from benchmarks.cases import CASES, Case, Spec, quick
from benchmarks.flops import flops, update_products
from geoact import algorithms, environments
from geoact.config import SACConfig, defaults
from geoact.experiments.catalogue import EXPERIMENTS
from geoact.transitions import row_width

PAGE, FRONT = Path(report.ROOT, "docs", "performance.md"), Path(report.ROOT, "README.md")


def test_products_of_a_tiny_update_counted_by_hand():
    # obs 3, action 1, width 5, batch 7. The actor's layers are 3-5, 5-5, 5-2; a critic's 4-5, 5-5, 5-1.
    actor, critic, inner = 3 * 5 + 5 * 5 + 5 * 2, 4 * 5 + 5 * 5 + 5 * 1, 5 * 5 + 5 * 1
    critic_work = actor + 2 * critic + 2 * (critic + critic + inner)
    actor_work = actor + 2 * critic + 2 * (inner + 5 * 1) + actor + (5 * 5 + 5 * 2)
    assert flops(update_products("sac", 3, 1, 5, 7)) == 2 * 7 * (critic_work + actor_work)


@pytest.mark.parametrize("algorithm", ["sac", pytest.param("gac", marks=pytest.mark.slow)])
def test_counted_work_is_what_xla_counts(algorithm: str):
    obs_dim, action_dim = report.HALFCHEETAH
    settings = defaults(algorithm).resolve("", action_dim, 10**6)
    built = algorithms.build(algorithm, settings, obs_dim, action_dim)
    state = jax.eval_shape(built.init, jax.random.key(0))
    rows = np.zeros((1, 256, row_width(obs_dim, action_dim)), np.float32)
    compiled = jax.jit(built.update).lower(state, rows, jax.random.key(0)).compile()
    counted = flops(update_products(algorithm, obs_dim, action_dim))
    # XLA counts activations and optimisers too.
    cost = compiled.cost_analysis()
    assert cost is not None
    assert 0.95 < counted / cost["flops"] < 1.0


def test_halfcheetah_has_the_sizes_that_the_roofline_assumes():
    env = environments.make("HalfCheetah-v5")
    assert (env.observation_space.shape, env.action_space.shape) == ((17,), (6,))
    env.close()


def test_a_burst_counts_everything_it_did():
    done: list[int] = []

    def work(count: int) -> None:
        time.sleep(0.001 * count)
        done.append(count)

    count, seconds = worker.burst(work, 0.05)
    assert count == sum(done) and seconds >= 0.05 and 0.001 * count <= seconds


def _write(folder: Path, letter: str, measured: dict[Spec, list[float]], failed: dict[Spec, str]) -> None:
    group: dict[str, Any] = {
        "measurements": [dataclasses.asdict(spec) | {"rounds": rounds} for spec, rounds in measured.items()],
        "failed": [dataclasses.asdict(spec) | {"reason": reason} for spec, reason in failed.items()],
    }
    case = {
        "title": "t",
        "date": "today",
        "cpu": "a processor",
        "load_before": 0.0,
        "seconds_per_turn": 1.0,
        "versions": {"jax": "1"},
        "groups": [group],
    }
    (folder / f"{letter}.json").write_text(json.dumps(case))


def _row(page: str, *cells: str) -> list[str]:
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines()]
    found = [row for row in rows if row[: len(cells)] == list(cells)]
    assert len(found) == 1, f"{len(found)} rows begin with {cells}"
    return found[0]


@pytest.fixture
def page(tmp_path: Path) -> str:
    """The page for a vector step on one core, and an update at a known share of the roofline."""
    env = "HalfCheetah-v5"
    step = {name: Spec(name, "vector step", (1,), env) for name in ("geoact", "sb3", "sbx")}
    times = {step["geoact"]: [0.010, 0.010, 0.011], step["sb3"]: [0.020, 0.017, 0.011]}
    _write(tmp_path, "a", times, {step["sbx"]: "exit code 1: no memory"})
    update, products = Spec("geoact", "update", (1,), env), "products"
    bare = {
        Spec("numpy", products, (1,), env): [0.009, 0.008],
        Spec("jax", products, (1,), env): [0.008, 0.010],
    }
    _write(tmp_path, "b", {update: [0.010, 0.010], **bare}, {})
    target, front = (Path(shutil.copy(each, tmp_path)) for each in (PAGE, FRONT))
    report.write(tmp_path, target, front)
    assert (tmp_path / "ratios.png").exists() and (tmp_path / "a.csv").exists()
    assert front.read_text() == FRONT.read_text()  # minutes to a return were not measured
    return target.read_text()


def test_numbers_on_the_page_are_the_measured_ones(page: str):
    row = _row(page, "HalfCheetah-v5", "1", "Stable-Baselines3")
    assert row[3:] == ["17.00", "11.00", "20.00", "1.70", "1.00", "2.00"]


def test_targets_are_met_or_missed_by_the_median(page: str):
    what = "vector step, HalfCheetah-v5, one core: Stable-Baselines3 / geoact"
    assert _row(page, what) == [what, ">= 1.8 times", "1.70", "1.00", "2.00", "missed"]
    share = "bare update, one core: share of the roofline"  # each round's fastest product pass: 8 ms of 10
    assert _row(page, share) == [share, ">= 0.85", "0.80", "0.80", "0.80", "missed"]
    assert report.TARGETS[0].met(report.Spread(1.2, 1.0, 1.3))
    memory = next(target for target in report.TARGETS if not target.at_least)
    assert memory.met(report.Spread(1.0, 1.0, 1.0)) and not memory.met(report.Spread(1.1, 0.9, 1.2))


def test_what_was_not_measured_is_said(page: str):
    assert "Not measured: SBX, vector step: exit code 1: no memory." in page
    assert _row(page, "predict, one observation")[-1] == "not measured"
    for letter in sorted(set(report.VIEWS) - {"a", "b"}):
        assert f'Not measured yet: `make bench CASES="{letter}"`.' in page


def test_a_contestant_that_dies_is_out_with_a_reason(capsys: pytest.CaptureFixture[str]):
    """The others go on."""
    good, bad = Spec("numpy", "products"), Spec("numpy", "products", env="Nope-v0")
    found = run.measure_group("x", Case("x", [], rounds=2, seconds=0.01), [bad, good])
    assert [(m["env"], len(m["rounds"])) for m in found["measurements"]] == [("HalfCheetah-v5", 2)]
    assert [(f["env"], "Nope-v0" in f["reason"]) for f in found["failed"]] == [("Nope-v0", True)]
    assert "round 2/2" in capsys.readouterr().err


@pytest.mark.parametrize("letter", CASES)
def test_the_page_can_tell_all_measurements_of_a_case_apart(letter: str):
    fields = ("contestant", *report.VIEWS[letter].contexts)
    for case in (CASES[letter], quick(CASES[letter])):
        specs = [spec for group in case.groups for spec in group]
        assert len({tuple(getattr(spec, field) for field in fields) for spec in specs}) == len(specs)


def test_every_case_has_its_place_on_the_page():
    assert set(CASES) == set(report.VIEWS)
    text = PAGE.read_text()
    for part in ("targets", "figure", *CASES, "i"):
        assert "new" in report.fill_in(text, part, "new")
    with pytest.raises(ValueError, match="0 places"):
        report.fill_in(text, "nothing", "new")


def test_the_peers_queue_is_the_sweep_of_our_baselines(tmp_path: Path) -> None:
    from benchmarks.peers_queue import queue

    runs = list(queue())
    assert len(runs) == 18 + 12 and len({run.name for run in runs}) == 30
    assert [run.library for run in runs[:18]] == ["sb3"] * 18
    assert {run.timesteps for run in runs if run.algorithm == "ppo"} == {401_408}
    assert {run.timesteps for run in runs if run.algorithm != "ppo"} == {160_000}
    assert {run.algorithm for run in runs[18:]} == {"sac", "td3"}
    there = Path(report.ROOT, "results", "baselines", "peers")
    assert all((there / f"{run.name}.json").exists() for run in runs[:18])  # the committed ones


def test_the_baselines_table_is_made_of_the_committed_runs_and_stands_on_the_pages(tmp_path: Path) -> None:
    folder = Path(report.ROOT, "results", "baselines")
    baselines.compare(tmp_path)
    for name in ("comparison.md", "comparison.csv"):
        assert (tmp_path / name).read_text() == (folder / name).read_text(), name
    pages = (Path(report.ROOT, "README.md").read_text(), (folder / "README.md").read_text())
    with open(tmp_path / "comparison.csv", newline="") as file:
        for row in csv.DictReader(file):
            assert all(row["transitions = vector steps x environments"] in page for page in pages)
            for kind in ("training", "evaluation"):
                mean, low, high = (float(row[kind + part]) for part in ("", ", lowest", ", highest"))
                assert all(f"{mean:,.0f} ({low:,.0f} to {high:,.0f})" in page for page in pages)


def write_training(folder: Path, contestant: str, seed: int, evaluations: list[list[float]]) -> None:
    record = {"contestant": contestant, "env": "Hopper-v4", "seed": seed, "machine": "a slow one"}
    record |= {"evaluations": evaluations}
    (folder / f"{contestant}__Hopper-v4__s{seed}.json").write_text(json.dumps(record))


def test_minutes_to_a_return_are_those_of_the_first_evaluation_that_passes_it(tmp_path: Path):
    write_training(
        tmp_path, "gac-fast", 0, [[1.0, 8_000, 300.0], [2.0, 16_000, 1_000.0], [3.0, 24_000, 900.0]]
    )
    write_training(tmp_path, "gac-fast", 10, [[1.5, 8_000, 999.0], [4.0, 16_000, 2_600.0]])
    write_training(tmp_path, "sbx-sac", 0, [[5.0, 8_000, 1_200.0]])
    files = returns.load(tmp_path)
    found = returns.table(files)
    assert found.columns == ["task", "return", "gac-fast", "SBX SAC", "fastest peer"]
    rows = {row[1]: row[2:] for row in found.rows if row[0] == "Hopper-v4"}
    assert rows[1_000] == ["3.0 (2.0 to 4.0)", "5.0 (one seed)", "1.7"]
    assert rows[2_500] == ["> 3.5 (1 of 2 seeds)", "> 5.0 (one seed)", ""]
    assert {row[0] for row in found.rows} == {"Hopper-v4"}
    assert "a slow one" in found.note and "Not measured yet: Walker2d-v4," in found.note
    assert all(path.stat().st_size > 10_000 for path in returns.draw(files, tmp_path / "i"))


def times(*minutes: float) -> list[returns.Time]:
    """Negative minutes: given up after so many."""
    return [returns.Time(abs(m), m > 0) for m in minutes]


def test_a_cell_says_how_many_seeds_got_there():
    assert returns.cell(times(2.0, 3.0)) == "2.5 (2.0 to 3.0)"
    assert returns.cell(times(2.0, -3.0)) == "> 2.5 (1 of 2 seeds)"
    assert returns.cell(times(-2.0, -3.0)) == "> 2.5"
    assert returns.cell(times(-3.0)) == "> 3.0 (one seed)" and returns.cell([]) == ""


def test_the_fastest_peer_is_the_one_with_the_least_mean_given_up_counted_as_the_minutes_it_had():
    ours = {"gac-fast": times(2.0, 3.0), "sac": times(1.0, 1.0)}
    assert returns.ratio(ours | {"sbx-sac": times(6.0, 9.0), "sb3-sac": times(2.0, -10.0)}) == "> 2.4"
    assert returns.ratio(ours | {"sbx-sac": times(4.0, 6.0), "sb3-sac": times(9.0, -10.0)}) == "2.0"
    assert returns.ratio(ours) == ""
    assert returns.ratio({"gac-fast": times(2.0, -9.0), "sbx-sac": times(3.0)}) == ""


def test_the_minutes_on_both_pages_are_those_of_the_committed_trainings(tmp_path: Path):
    files = returns.load(report.ROOT / "benchmarks" / "results" / "returns")
    table = report.minutes(files, tmp_path / "i")
    assert (tmp_path / "i.csv").read_text() == (report.ROOT / "benchmarks" / "results" / "i.csv").read_text()
    assert all(f"<!-- bench i -->\n{table}\n" in page.read_text() for page in (PAGE, FRONT))


def test_the_record_of_a_training_names_its_machine():
    assert returns.machine()


def test_a_training_ends_at_its_last_threshold_or_at_the_limit(tmp_path: Path):
    training = returns.Training("sbx-sac", "Hopper-v4", 0)
    watch = returns.Watch(training, tmp_path)
    assert watch.goes_on(60.0, 8_000, 2_499.0)
    assert not watch.goes_on(120.0, 16_000, 2_500.0)
    assert not returns.Watch(training, tmp_path).goes_on(60.0 * returns.LIMIT, 16_000, 0.0)


def test_a_training_is_given_up_after_a_multiple_of_the_minutes_of_gac_fast_with_the_same_seed(
    tmp_path: Path,
):
    watch = returns.Watch(returns.Training("sbx-sac", "Hopper-v4", 0), tmp_path)
    write_training(tmp_path, "gac-fast", 10, [[0.1, 8_000, 2_600.0]])
    assert watch.limit() == returns.LIMIT
    write_training(tmp_path, "gac-fast", 0, [[1.0, 8_000, 1_000.0], [1.5, 16_000, 2_600.0]])
    assert watch.limit() == 1.5 * returns.PATIENCE
    assert watch.goes_on(60.0 * 4.4, 8_000, 0.0) and not watch.goes_on(60.0 * 4.5, 16_000, 0.0)
    write_training(tmp_path, "gac-fast", 0, [[10.0, 8_000, 1_000.0]])
    assert watch.limit() == returns.LIMIT


DRIVER = """
    from pathlib import Path
    from benchmarks.peers_queue import work_off

    class Long:
        name = "long"

        def command(self, out):
            begun = f"import os, pathlib, time; pathlib.Path({str(out / 'pid')!r}).write_text(str(os.getpid()))"
            return ["timeit", "-n", "1", "-r", "1", f"{begun}; time.sleep(60)"]

    work_off([Long()], Path.cwd(), [min(os.sched_getaffinity(0))])
"""


def test_a_driver_that_is_asked_to_stop_ends_its_trainings(tmp_path: Path):
    code = "import os\n" + textwrap.dedent(DRIVER)
    driver = subprocess.Popen(
        [sys.executable, "-c", code], cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(report.ROOT)}
    )
    deadline, pid = time.monotonic() + 30, tmp_path / "pid"
    while not (pid.exists() and pid.read_text()) and time.monotonic() < deadline:
        time.sleep(0.05)
    training = Path("/proc", pid.read_text())
    assert training.exists()
    driver.terminate()
    assert driver.wait(30) != 0
    while training.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not training.exists()


def test_runs_of_equal_duration_worked_out_by_hand():
    settings = SACConfig(learning_starts=5_000)
    seconds = lengths.duration(40_000, settings, idle=1.0, busy=3.0)
    assert seconds == 5_000 * 1.0 + 35_000 * 3.0
    length = lengths.equal_length(40_000, settings, 1.0, 6.0, seconds)
    assert length == pytest.approx(
        0.55, abs=1e-3
    )  # 22,000: a fifth of it warms up, 4,400 + 17,600 * 6 = 110,000
    assert lengths.equal_length(40_000, settings, 1.0, 3.0, seconds) == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("name", lengths.NAMES)
def test_variants_have_the_lengths_that_were_measured(name: str):
    measured = json.loads(lengths.OUT.read_text())[name]
    there = {label: variant.length for label, variant in EXPERIMENTS[name].variants.items()}
    assert there == {label: row["length"] for label, row in measured.items()}
