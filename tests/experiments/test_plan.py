"""From an experiment to its runs: complete, checked, in order, by names that follow from what they are."""

import dataclasses
import json

import pytest

from geoact.config import GACConfig
from geoact.errors import InputError
from geoact.experiments import catalogue, plan
from geoact.experiments.catalogue import EXPERIMENTS, ExperimentTask, Variant


def test_unknown_experiment_is_answered_with_the_nearest() -> None:
    with pytest.raises(InputError, match=r"unknown experiment 'table4': did you mean table"):
        plan.find("table4")


def test_plan_is_complete_longest_first_and_deterministic() -> None:
    chosen = catalogue.select(EXPERIMENTS["table1"], ["Hopper-v4", "Humanoid-v4"], ["gac"], "2")
    runs = plan.plan(chosen, 0.002)
    assert runs == plan.plan(chosen, 0.002)
    assert [run.name for run in runs] == [
        "Humanoid-v4__gac__s0__16000t",
        "Humanoid-v4__gac__s10__16000t",
        "Hopper-v4__gac__s0__16000t",
        "Hopper-v4__gac__s10__16000t",
    ]
    config = runs[0].config
    assert config.threads == 1 and config.timesteps == 16_000 and config.vector_steps == 2_000
    assert isinstance(config.settings, GACConfig)
    assert config.settings.radius == 2.5 and config.settings.slack == 0  # nothing automatic is left


def test_a_task_that_does_not_exist_is_found_before_anything_starts() -> None:
    broken = dataclasses.replace(
        catalogue.select(EXPERIMENTS["table1"], ["Hopper-v4"], ["gac"]),
        tasks=(ExperimentTask("Hopper-v4", 10), ExperimentTask("Hoper-v4", 10)),
    )
    with pytest.raises(InputError, match=r"nothing was started: Hoper-v4: unknown environment.*Hopper-v4"):
        plan.plan(broken)


def test_a_missing_sweep_file(tmp_path) -> None:
    with pytest.raises(InputError, match="cannot read"):
        plan.find(str(tmp_path / "none.toml"))


def test_runs_that_would_share_a_folder_are_refused() -> None:
    experiment = dataclasses.replace(
        EXPERIMENTS["table3"],
        variants={"r 1": Variant("gac"), "r/1": Variant("gac", {"radius": 1.0})},
        seeds=(0,),
    )
    with pytest.raises(InputError, match="two runs would share a folder"):
        plan.plan(experiment, 8000)


def test_labels_of_earlier_runs_are_kept(tmp_path) -> None:
    experiment = catalogue.select(EXPERIMENTS["table3"], None, ["r=1.5"], "1")
    plan.note_labels(tmp_path, experiment, plan.plan(experiment, 8000))
    plan.note_labels(tmp_path, experiment, plan.plan(experiment, 16000))
    labels = json.loads((tmp_path / "sweep.json").read_text())["runs"]
    assert labels == {f"HalfCheetah-v4__r=1.5__s0__{n}t": "r=1.5" for n in (8000, 16000)}
