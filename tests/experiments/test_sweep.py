"""A sweep as functions: which runs it has, and what it says of itself."""

import pytest

from geoact.errors import InputError
from geoact.experiments.sweep import PPOBudget, Selection, describe, plan_sweep, run_sweep


def test_an_experiment_in_order_runs_task_after_task_each_with_its_first_seed_first() -> None:
    selection = Selection(
        budget="2400", seeds="0,10", tasks=("HalfCheetah-v4", "Hopper-v4"), algorithms=("gac", "ppo")
    )
    evidence, runs = plan_sweep("evidence", selection)
    assert evidence.in_order
    assert [run.name.removesuffix("__2400t") for run in runs] == [
        "HalfCheetah-v4__gac__s0",
        "HalfCheetah-v4__ppo__s0",
        "HalfCheetah-v4__gac__s10",
        "HalfCheetah-v4__ppo__s10",
        "Hopper-v4__gac__s0",
        "Hopper-v4__ppo__s0",
        "Hopper-v4__gac__s10",
        "Hopper-v4__ppo__s10",
    ]


def test_ppo_steps_are_vector_steps_or_transitions() -> None:
    units: dict[PPOBudget, int] = {"vector-steps": 8_000_000, "transitions": 1_000_000}
    for unit, expected in units.items():
        _, runs = plan_sweep(
            "table1", Selection(seeds="1", tasks=("Hopper-v4",), algorithms=("sac", "ppo"), ppo_budget=unit)
        )
        assert {run.label: run.config.timesteps for run in runs} == {"sac": 8_000_000, "ppo": expected}


def test_the_baselines_train_as_long_as_their_peers() -> None:
    _, runs = plan_sweep("baselines", Selection(seeds="1"))
    assert {(run.label, run.config.timesteps, run.config.evaluations) for run in runs} == {
        ("sac", 160_000, 10),
        ("td3", 160_000, 10),
        ("ppo", 401_408, 10),
    }


def test_a_sweep_in_one_line() -> None:
    chosen, runs = plan_sweep("table3", Selection(budget="8000", seeds="2", algorithms=("r=1.5", "r=2.5")))
    assert describe(chosen, runs) == "Table 3: ablations on HalfCheetah: 4 runs, 32,000 transitions in all"


def test_what_is_refused_starts_nothing(tmp_path) -> None:
    with pytest.raises(InputError, match="jobs must be 0 or more"):
        run_sweep("table3", out=tmp_path / "out", jobs=-1)
    with pytest.raises(InputError, match="has no algorithm 'r=9'"):
        run_sweep("table3", Selection(algorithms=("r=9",)), out=tmp_path / "out")
    assert not (tmp_path / "out").exists()
