"""Variants of a recipe beside the whole of it, with returns made by hand."""

import json
from pathlib import Path

import pytest

from geoact.config import RunConfig
from geoact.experiments.catalogue import EXPERIMENTS
from geoact.report import ablation, evidence
from geoact.report.collect import collect, groups_of
from geoact.storage import runs
from tests.report.test_paper_tables import read_markdown

RECIPE = EXPERIMENTS["recipe"]
TASKS = {task.name: task for task in RECIPE.tasks}


def recipe_run(folder: Path, label: str, task: str, seed: int, training: float, score: float) -> None:
    """A finished run of a variant, of the experiment's length."""
    chosen, variant = TASKS[task], RECIPE.variants[label]
    total = chosen.vector_steps * RECIPE.num_envs
    settings = variant.config().resolve(chosen.env, chosen.action_dim or 0, total)
    config = RunConfig(chosen.env, variant.algorithm, settings, timesteps=total, seed=seed)
    run = runs.create_at(folder / f"{label}-{task}-{seed}", config)
    row = {
        "step": total,
        "updates": 36_000,
        "time/elapsed": 120.0 + 60.0 * seed,
        "charts/episodic_return": training,
        "charts/episodes": 8,
        "eval/return_mean": score,
    }
    (run.path / "metrics.jsonl").write_text(json.dumps(row) + "\n")
    run.set_status("finished", total, total)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for seed, more in ((0, 0.0), (1, 200.0)):
        recipe_run(tmp_path / "runs", "gac-fast", "Walker2d-v4", seed, 900.0 + more, 2_000.0)
        recipe_run(tmp_path / "runs", "no-three-steps", "Walker2d-v4", seed, 400.0 + more, 1_000.0)
    recipe_run(tmp_path / "runs", "gac-fast", "Hopper-v4", 0, 300.0, 1_000.0)
    recipe_run(tmp_path / "runs", "no-three-steps", "Hopper-v4", 0, 600.0, 1_000.0)
    recipe_run(tmp_path / "runs", "only-three-steps", "HalfCheetah-v4", 0, 50.0, 70.0)
    return tmp_path


def test_the_table_by_hand(folder: Path) -> None:
    groups = groups_of(RECIPE, collect(folder / "runs")[0])
    written = ablation.make(RECIPE, groups, [], folder)
    assert {path.name for path in written} >= {"recipe.md", "recipe.csv", "recipe.tex", "recipe.png"}
    rows = read_markdown(folder / "recipe.md")
    assert list(rows) == list(RECIPE.variants)
    without = rows["no-three-steps"]
    assert without["Walker2d-v4"] == "500 ± 141 / 1,000 ± 0 (n=2)"
    assert without["share of gac-fast, training"] == "125 %"  # of 500/1,000 and 600/300
    assert without["share of gac-fast, evaluation"] == "75 %"  # of 1,000/2,000 and 1,000/1,000
    # Walker2d: 900 and 1,100 beat 400 and 600; Hopper: 300 does not beat 600, and in evaluation it is a tie
    assert without["P(gac-fast better), training"] == "0.50"  # no interval: Hopper has one seed
    assert without["P(gac-fast better), evaluation"] == "0.75"
    assert rows["gac-fast"]["P(gac-fast better), training"] == ""
    assert without["updates"] == "36,000"
    assert without["core minutes"] == "2.3"  # of 2, 3 and 2
    assert rows["gac-fast"]["share of gac-fast, training"] == "100 %"
    alone = rows["only-three-steps"]  # on a task that the whole has not run
    assert alone["HalfCheetah-v4"] == "50.00 / 70.00 (n=1)" and alone["share of gac-fast, training"] == ""
    assert rows["gac-entropy"]["core minutes"] == "" and rows["gac-entropy"]["Hopper-v4"] == "no runs"


def test_without_the_whole_nothing_is_drawn(tmp_path: Path) -> None:
    recipe_run(tmp_path / "runs", "only-three-steps", "HalfCheetah-v4", 0, 50.0, 70.0)
    groups = groups_of(RECIPE, collect(tmp_path / "runs")[0])
    assert ablation.draw(tmp_path / "recipe", RECIPE, groups) == []


def test_a_variant_with_more_environments_has_only_runs_with_so_many(tmp_path: Path) -> None:
    """But for its length its settings are those of the whole."""
    growing = EXPERIMENTS["growing"]
    task, wide = growing.tasks[0], growing.variants["environments-16"]
    for num_envs, timesteps in ((8, 320_000), (16, 537_600)):
        settings = wide.config().resolve(task.env, task.action_dim or 0, timesteps, num_envs)
        config = RunConfig(task.env, "gac-fast", settings, timesteps=timesteps, num_envs=num_envs)
        run = runs.create_at(tmp_path / f"{num_envs}", config)
        (run.path / "metrics.jsonl").write_text(
            f'{{"step": {timesteps}, "eval/return_mean": {num_envs}.0}}\n'
        )
        run.set_status("finished", timesteps, timesteps)
    groups = groups_of(growing, collect(tmp_path)[0])
    assert groups[task.name, "gac-fast"].scores("eval") == {0: 8.0}
    assert groups[task.name, "environments-16"].scores("eval") == {0: 16.0}
    assert groups[task.name, "width-512"].runs == []


def test_where_nobody_has_run_nobody_is_listed() -> None:
    (line,) = [text for text in evidence.notes(RECIPE, groups_of(RECIPE, []), []) if "Missing" in text]
    assert line.endswith("makes them): all seeds on all tasks: all variants.")
