import dataclasses
from pathlib import Path

import pytest

from geoact.config import GACConfig, RunConfig, defaults
from geoact.experiments.catalogue import EXPERIMENTS
from geoact.report import evidence
from geoact.report.collect import collect, groups_of
from geoact.storage import runs
from tests.report.test_collect import make_run
from tests.report.test_paper_tables import read_markdown

EVIDENCE = EXPERIMENTS["evidence"]


def sac_run(folder: Path, env: str, action_dim: int, seed: int, score: float) -> None:
    settings = defaults("sac").resolve(env, action_dim, 8_000)
    config = RunConfig(env, "sac", settings, timesteps=8_000, seed=seed)
    run = runs.create_at(folder / f"sac-{env}-{seed}".replace("/", "-"), config)
    (run.path / "metrics.jsonl").write_text(
        f'{{"step": 8000, "charts/episodic_return": {score / 2}, "charts/episodes": 8, '
        f'"eval/return_mean": {score}, "eval/return_std": 1.0}}\n'
    )
    run.set_status("finished", 8_000, 8_000)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """gac on HalfCheetah, gac-scale on walker-run, sac on both, two seeds each."""
    for seed in (0, 10):
        make_run(tmp_path / "runs", f"a{seed}", seed=seed, score=100.0 + seed)
        learned = GACConfig(scale="learned")
        make_run(tmp_path / "runs", f"b{seed}", learned, "walker-run", seed, 300.0, algorithm="gac-scale")
        sac_run(tmp_path / "runs", "HalfCheetah-v4", 6, seed, 50.0)
        sac_run(tmp_path / "runs", "dm_control/walker-run", 6, seed, 400.0)
    return tmp_path


def test_the_table_by_hand(folder: Path) -> None:
    found, _ = collect(folder / "runs")
    groups = groups_of(EVIDENCE, found)
    evidence.table(EVIDENCE, groups, []).write(folder)
    rows = read_markdown(folder / "evidence.md")
    assert list(rows) == [
        f"{task.name} (run as {task.env})" if task.note else task.name for task in EVIDENCE.tasks
    ]
    cheetah = rows["HalfCheetah-v4"]
    assert cheetah["gac"] == "40.00 ± 0.00 / 105 ± 7 (n=2)"
    assert cheetah["sac"] == "25.00 ± 0.00 / 50.00 ± 0.00 (n=2)"
    assert cheetah["td3"] == "no runs"
    assert cheetah["transitions = vector steps x environments"] == "8,000 = 1,000 x 8"
    assert cheetah["paper's gac (vector steps)"] == "12,750 ± 758 (1,000,000)"
    assert rows["Pusher-v4 (run as Pusher-v5)"]["paper's gac (vector steps)"] == "-32 ± 0 (500,000)"
    assert rows["walker-run"]["gac"] == "40.00 ± 0.00 / 300 ± 0 (n=2)"  # by gac-scale, as the notes say
    text = (folder / "evidence.md").read_text()
    assert "gac is gac-scale on walker-run" in text
    assert "- 2 seeds per entry" in text
    planned = sum(variant.on(task) for task in EVIDENCE.tasks for variant in EVIDENCE.variants.values())
    total = planned * len(EVIDENCE.seeds)
    assert (
        f"Missing ({total - 8} of {total} runs; geoact sweep evidence makes them): "
        "seed 42 on HalfCheetah-v4: gac; all seeds on Walker2d-v4, Hopper-v4, Ant-v4, Humanoid-v4, Pusher-v4: gac; "
        in text
    )
    assert "seed 42 on HalfCheetah-v4, walker-run: sac; all seeds on Walker2d-v4" in text
    assert "all seeds on all tasks: gac-fast, sac-fast, td3, ppo, gac-entropy, gac-scale-entropy; " in text


def test_methods_are_compared_over_both_suites(folder: Path) -> None:
    found, _ = collect(folder / "runs")
    written = evidence.make(EVIDENCE, groups_of(EVIDENCE, found), [], folder / "out")
    assert all(path.stat().st_size > 0 for path in written)
    rows = read_markdown(folder / "out" / "evidence_aggregate.md", key=2)
    # gac beats sac in every pair of runs on one of the two tasks, and loses every pair on the other
    assert rows["sac"]["P(gac better)"] == "0.50"
    text = (folder / "out" / "evidence_aggregate.md").read_text()
    assert (
        "over 2 tasks that all of these have finished with equal budgets: HalfCheetah-v4, walker-run" in text
    )
    names = {path.name for path in written}
    assert {"evidence.png", "evidence.svg", "evidence.tex", "evidence_profiles_training.png"} <= names


def test_what_happens_inside_is_the_mean_over_seeds_at_the_end(folder: Path) -> None:
    found, _ = collect(folder / "runs")
    groups = groups_of(EVIDENCE, found)
    for run in groups["HalfCheetah-v4", "gac"].runs:
        run.rows[-1]["policy/weight"] = 0.5 + run.config.seed / 100
    evidence.inside(EVIDENCE, groups).write(folder)
    rows = read_markdown(folder / "evidence_inside.md", key=2)
    assert list(rows) == ["gac", "gac-scale"]  # the others logged nothing of it
    assert rows["gac"]["weight w"] == "0.55" and rows["gac"]["runs"] == "2"
    assert rows["gac-scale"]["kappa"] == "1" and rows["gac-scale"]["weight w"] == ""


def test_without_runs_there_is_still_a_table_and_a_figure(tmp_path: Path) -> None:
    written = evidence.make(EVIDENCE, groups_of(EVIDENCE, []), [], tmp_path)
    assert {path.name for path in written} == {
        f"evidence{s}" for s in (".md", ".csv", ".tex", ".png", ".svg")
    }


def test_every_method_has_one_variant_on_every_task() -> None:
    merged = evidence.by_method(EVIDENCE, groups_of(EVIDENCE, []))
    methods = {method for _, method in merged}
    assert {(task.name, method) for task in EVIDENCE.tasks for method in methods} == set(merged)


@pytest.fixture
def three_methods(tmp_path: Path) -> Path:
    """gac and sac on the first two tasks, gac-entropy on the first alone."""
    for task in EVIDENCE.tasks[:2]:
        assert task.action_dim is not None
        for seed in (0, 10):
            name = f"{task.env}-{seed}"
            make_run(tmp_path / "runs", name, env=task.env, seed=seed, score=100.0 + seed)
            sac_run(tmp_path / "runs", task.env, task.action_dim, seed, 50.0)
    make_run(tmp_path / "runs", "entropy", GACConfig(exploration="entropy"), env=EVIDENCE.tasks[0].env)
    return tmp_path


@pytest.mark.parametrize("planned", [2, 4])
def test_a_method_that_lacks_a_task_does_not_take_it_from_the_others(
    three_methods: Path, planned: int
) -> None:
    """Neither from those that have finished all tasks nor, before there are such, from those with half of them; and one
    without a run takes nothing from anyone."""
    small = dataclasses.replace(
        EVIDENCE,
        tasks=EVIDENCE.tasks[:planned],
        variants={name: EVIDENCE.variants[name] for name in ("gac", "sac", "gac-entropy", "ppo")},
    )
    out = three_methods / "out"
    found, _ = collect(three_methods / "runs")
    names = {path.name for path in evidence.make(small, groups_of(small, found), [], out)}
    assert {"evidence_aggregate.md", "evidence_shared_aggregate.md"} <= names
    whole = (out / "evidence_aggregate.md").read_text()
    assert "over 2 tasks" in whole and "gac-entropy" not in whole
    both = (out / "evidence_shared_aggregate.md").read_text()
    assert "over 1 task " in both and "No interval (training) of gac-entropy" in both


@pytest.mark.parametrize(
    ("planned", "others", "shown"),
    [
        (2, (), {"gac", "sac"}),  # two of four methods have all tasks
        (2, ("td3",), {"gac", "sac", "gac-entropy"}),  # two of five; these three share half of the tasks
        (4, (), {"gac", "sac"}),  # none has all tasks; these two share half of them
    ],
)
def test_the_figure_is_of_all_tasks_once_half_of_the_methods_have_them(
    three_methods: Path, planned: int, others: tuple[str, ...], shown: set[str]
) -> None:
    names = ("gac", "sac", "gac-entropy", "ppo", *others)
    small = dataclasses.replace(
        EVIDENCE, tasks=EVIDENCE.tasks[:planned], variants={name: EVIDENCE.variants[name] for name in names}
    )
    found, _ = collect(three_methods / "runs")
    members = evidence.headline(small, evidence.by_method(small, groups_of(small, found)))
    assert {method for _, method in members} == shown
