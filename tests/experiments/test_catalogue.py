import dataclasses
from pathlib import Path

import pytest

from geoact.checks import differences
from geoact.config import FAST, CriticConfig, GACConfig, OffPolicyConfig, defaults
from geoact.errors import InputError
from geoact.experiments import catalogue, run_file
from geoact.experiments.catalogue import EXPERIMENTS, MUJOCO, ExperimentTask, Variant
from geoact.experiments.paper_numbers import paper_numbers
from geoact.experiments.sweep import Selection, plan_sweep
from geoact.report.milestones import AIMS, MILESTONE
from geoact.training.session import due

ROOT = Path(__file__).parents[2]


def test_the_papers_protocol_is_counted_as_the_paper_counts() -> None:
    runs = {
        name: sum(len(e.seeds) for task in e.tasks for variant in e.variants.values() if variant.on(task))
        for name, e in EXPERIMENTS.items()
    }
    assert {name: runs[name] for name in ("table1", "table2", "table3", "tableA2")} == {
        "table1": 120,
        "table2": 120,
        "table3": 35,
        "tableA2": 25,
    }
    assert runs["beyond"] == 12 * 4 * 5 and runs["baselines"] == 2 * 3 * 3 and runs["weight"] == 2 * 3 * 2


def test_the_ablation_without_normalization_has_both_critics() -> None:
    variants = EXPERIMENTS["table3"].variants
    seen = [variants[label].config() for label in ("no-normalization", "no-normalization-raw")]
    assert [c.critic_action for c in seen if isinstance(c, GACConfig)] == ["executed", "raw"]


def test_the_released_preset_acts_as_the_weight_experiment_says() -> None:
    preset = run_file.read(ROOT / "examples" / "released.toml").settings
    fixed = EXPERIMENTS["weight"].variants["fixed-0.856"].config()
    assert isinstance(preset, GACConfig) and isinstance(fixed, GACConfig)
    assert preset == dataclasses.replace(fixed, normalize_mixture=False)


@pytest.mark.parametrize("name", list(EXPERIMENTS))
def test_every_paper_reference_exists(name: str) -> None:
    experiment, numbers = EXPERIMENTS[name], paper_numbers()
    if experiment.paper is None:
        return
    table = numbers[experiment.paper]
    for variant in experiment.variants.values():
        assert variant.paper is not None
        if len(experiment.tasks) > 1:
            assert all(variant.paper in table[task.paper] for task in experiment.tasks)
        else:
            assert variant.paper in table


def test_protocol_agrees_with_the_paper() -> None:
    protocol = paper_numbers()["protocol"]
    assert tuple(protocol["seeds"]) == catalogue.SEEDS
    for task in MUJOCO:
        steps = protocol["vector_steps_exceptions"].get(task.paper, protocol["vector_steps"])
        assert task.vector_steps == steps


def test_budget_is_a_fraction_or_a_number_of_transitions() -> None:
    task = ExperimentTask("Pusher-v5", 500_000)
    assert catalogue.transitions(task, 8, catalogue.parse_budget(None)) == 4_000_000
    assert catalogue.transitions(task, 8, catalogue.parse_budget("1")) == 4_000_000
    assert catalogue.transitions(task, 8, catalogue.parse_budget("0.002")) == 8_000
    assert catalogue.transitions(task, 8, catalogue.parse_budget("16000")) == 16_000
    assert catalogue.transitions(task, 8, catalogue.parse_budget("1e5")) == 100_000


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "1.5", "many", ""])
def test_bad_budgets(text: str) -> None:
    with pytest.raises(InputError, match="budget must be"):
        catalogue.parse_budget(text)


def test_seeds_are_a_count_or_a_list() -> None:
    assert catalogue.parse_seeds("2", catalogue.SEEDS) == (0, 10)
    assert catalogue.parse_seeds("77,0", catalogue.SEEDS) == (77, 0)
    assert catalogue.parse_seeds("42,", catalogue.SEEDS) == (42,)


@pytest.mark.parametrize("text", ["0", "6", "-1", "a", "", ",", "1,1", "1.5"])
def test_bad_seeds(text: str) -> None:
    with pytest.raises(InputError, match="seeds"):
        catalogue.parse_seeds(text, catalogue.SEEDS)


def test_select_finds_tasks_by_either_name() -> None:
    chosen = catalogue.select(EXPERIMENTS["table1"], ["Pusher-v4", "Ant-v4"], ["gac"], "1")
    assert [task.env for task in chosen.tasks] == ["Pusher-v5", "Ant-v4"]
    assert list(chosen.variants) == ["gac"] and chosen.seeds == (0,)
    assert catalogue.select(EXPERIMENTS["table2"], ["walker-run"]).tasks[0].env == "dm_control/walker-run"


def test_select_names_what_is_there() -> None:
    with pytest.raises(InputError, match="table1 has no task 'Hoper-v4': did you mean Hopper-v4"):
        catalogue.select(EXPERIMENTS["table1"], ["Hoper-v4"])
    with pytest.raises(InputError, match=r"table1 has no algorithm 'gac-scale': .*gac"):
        catalogue.select(EXPERIMENTS["table1"], None, ["gac-scale"])


def test_settings_are_checked_by_name_and_type() -> None:
    assert Variant("gac", {"radius": 2}).config() == GACConfig(radius=2)
    grouped = Variant("gac", {"critic": {"layer_norm": True}}).config()
    assert grouped == GACConfig(critic=CriticConfig(layer_norm=True))
    with pytest.raises(
        InputError, match="unknown setting of gac's critic 'layernorm': did you mean layer_norm"
    ):
        Variant("gac", {"critic": {"layernorm": True}}).config()
    with pytest.raises(InputError, match="unknown setting of gac 'raduis': did you mean radius"):
        Variant("gac", {"raduis": 2.0}).config()
    with pytest.raises(InputError, match="radius must be a finite number, got 'wide'"):
        Variant("gac", {"radius": "wide"}).config()
    with pytest.raises(InputError, match="slack must be one of auto, 0, 1, 2, got 'True'"):
        Variant("gac", {"slack": True}).config()


def test_the_recipe_is_the_sum_of_its_ingredients() -> None:
    recipe, plain = EXPERIMENTS["recipe"].variants, catalogue.PLAIN
    fast = recipe["gac-fast"].config()
    named = {name for names in catalogue.INGREDIENTS.values() for name in names}
    assert {name.partition(".")[0] for name in differences(fast, plain)} == named
    for label, names in catalogue.INGREDIENTS.items():
        without, alone = recipe[f"no-{label}"].config(), recipe[f"only-{label}"].config()
        assert {name.partition(".")[0] for name in differences(without, fast)} == set(names)
        assert {name.partition(".")[0] for name in differences(alone, plain)} == set(names)
    assert recipe["gac-entropy"].config() == plain


def test_a_variant_of_the_recipe_with_larger_batches_is_shorter() -> None:
    lengths = {label: variant.length for label, variant in EXPERIMENTS["recipe"].variants.items()}
    shorter = {label for label, length in lengths.items() if length < 0.9}
    alone = {label for label in lengths if label.startswith("only-")}
    assert shorter == {"no-small-batch", "gac-entropy"} | alone - {"only-small-batch"}
    assert lengths["gac-fast"] == 1.0


def test_the_recipe_under_sac_has_the_same_critic() -> None:
    ours, twin = EXPERIMENTS["evidence"].variants["gac-fast"], EXPERIMENTS["evidence"].variants["sac-fast"]
    assert {name: getattr(ours.config(), name) for name in FAST} == FAST
    assert {name: getattr(twin.config(), name) for name in FAST} == FAST


def test_what_is_aimed_at_is_where_runs_of_60_000_updates_end() -> None:
    lengths = {
        task.name: task.vector_steps - 5_000 for task in EXPERIMENTS["fast"].tasks
    }  # after the warm-up
    assert {name for name, updates in lengths.items() if updates == MILESTONE} == set(AIMS)
    assert set(lengths.values()) == {MILESTONE, 100_000} and len(lengths) == 12


def test_the_recipe_makes_60_000_updates_and_in_the_evidence_as_many_as_gac() -> None:
    selection = Selection(tasks=("Hopper-v4",), algorithms=("gac-fast",), seeds="1")
    (_, (long,)), (_, (short,)) = (plan_sweep(name, selection) for name in ("fast", "evidence"))
    total, settings = long.config.vector_steps, long.config.settings
    assert isinstance(settings, OffPolicyConfig) and settings.planned_updates == MILESTONE
    assert due(settings.warm_up(total) + MILESTONE, long.config.evaluations, total)
    gac = defaults("gac").resolve("Hopper-v4", 3, short.config.timesteps)
    assert isinstance(gac, OffPolicyConfig) and isinstance(short.config.settings, OffPolicyConfig)
    steps = short.config.vector_steps
    assert short.config.settings.planned_updates == steps - gac.warm_up(steps) == 35_000
