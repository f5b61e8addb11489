"""A sweep of one's own: what a file says, and what is said of a wrong one."""

from pathlib import Path

import pytest

from geoact.errors import InputError
from geoact.experiments import plan, sweep_file
from geoact.experiments.catalogue import ExperimentTask, Variant

GOOD = """name = "mine"
seeds = [0, 1]

[tasks]
"Pendulum-v1" = 5_000

[variants.wide]
algorithm = "gac"
radius = 3.5
"""


def test_a_sweep_file(tmp_path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(GOOD)
    experiment = sweep_file.read(path)
    assert experiment.name == "mine" and experiment.seeds == (0, 1)
    assert experiment.tasks == (ExperimentTask("Pendulum-v1", 5_000),)
    assert experiment.variants == {"wide": Variant("gac", {"radius": 3.5})}


def test_the_example_is_a_sweep_file() -> None:
    folder = Path(__file__).parents[2] / "examples"
    assert plan.plan(sweep_file.read(folder / "radius.toml"), 0.1)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("seeds = [0, 1]", "seeds = [0, 1", r"is not TOML: .*line 4.*near the key seeds"),
        ("seeds = [0, 1]", "seeds = 3", r"line 2, seeds: must be a list"),
        ("seeds = [0, 1]", "seeds = [0, 0]", r"line 2, seeds: must be different"),
        ("seeds = [0, 1]", "seeds = []", r"seeds: missing or empty"),
        ("seeds = [0, 1]", "seed = [0, 1]", r"line 2, seed: unknown key"),
        ('"Pendulum-v1" = 5_000', '"Pendulum-v1" = "long"', r"line 5, tasks.Pendulum-v1: must be a number"),
        ('algorithm = "gac"', 'algorithm = "gca"', r"line 8, variants.wide.algorithm: .*did you mean gac"),
        ('algorithm = "gac"', "", r"line 7, variants.wide: must be a table with an algorithm"),
        ("radius = 3.5", "raduis = 3.5", r"line 9, variants.wide.raduis: .*did you mean radius"),
        ("radius = 3.5", "radius = 'big'", r"line 9, variants.wide.radius: radius must be a finite number"),
        ("radius = 3.5", "radius = -1", r"line 9, variants.wide.radius: radius must be greater than 0"),
        ("radius = 3.5", 'scale = "learned"\nradius = 1', r"line 7, variants.wide: scale=learned replaces"),
        ('name = "mine"', 'name = "../up"', r"line 1, name: must be made of"),
        pytest.param('name = "mine"', 'name = ".."', r"line 1, name: must be made of", id="trust_21"),
        pytest.param(
            'name = "mine"', f"deep = {'[' * 4000}{']' * 4000}", r"nested too deeply", id="trust_20"
        ),
        ('name = "mine"', "in_order = 1", r"line 1, in_order: must be true or false"),
    ],
)
def test_a_malformed_sweep_file_names_line_and_key(tmp_path, old: str, new: str, message: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(GOOD.replace(old, new))
    with pytest.raises(InputError, match=message) as caught:
        sweep_file.read(path)
    assert "bad.toml" in str(caught.value)
