"""What the paper shows, by its name there: what can be made, and how to make what cannot."""

import pytest

from geoact.analysis import reproduction
from geoact.analysis.reproduction import reproduce
from geoact.errors import InputError


def test_without_runs_everything_says_how_to_make_it(tmp_path):
    (tmp_path / "runs").mkdir()
    done = reproduce("table2", tmp_path / "runs", tmp_path / "out")
    assert [line.partition(":")[0] for line in done.missing] == [
        "table2"
    ] and "geoact sweep table2" in done.missing[0]


def test_a_study_is_made_at_once(tmp_path, monkeypatch):
    made: list[tuple[object, ...]] = []

    def analyze(study: str, out: object, runs: object = None, seed: int = 0) -> list[object]:
        made.append((study, seed))
        return [out]

    monkeypatch.setattr(reproduction, "analyze", analyze)
    done = reproduce("figA1", tmp_path / "none", tmp_path / "out", seed=3)
    assert made == [("concentration", 3)] and done.written == [tmp_path / "out"]


def test_published_checkpoints_come_from_elsewhere(tmp_path):
    (tmp_path / "runs").mkdir()
    done = reproduce("checkpoints", tmp_path / "runs", tmp_path / "out")
    assert not done.written and "geoact import" in done.missing[0]


def test_policies_that_are_not_there(tmp_path):
    (tmp_path / "runs").mkdir()
    with pytest.raises(InputError, match="looks at policies trained on HalfCheetah"):
        reproduce("figA2", tmp_path / "runs", tmp_path / "out")


def test_policies_are_found_in_runs_and_in_folders_of_their_own(tmp_path):
    made = {
        "alone": "HalfCheetah-v4",
        "a/b/deep": "HalfCheetah-v5",
        "another": "Ant-v4",
        "run/policy": "HalfCheetah-v4",  # the run's own, chosen among the runs
    }
    for folder, env in made.items():
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "policy.json").write_text(f'{{"env": "{env}"}}')
    (tmp_path / "run" / "run.json").write_text("{}")
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "policy.json").write_text("{")
    found = reproduction._policies("figA2", [], tmp_path)
    assert found == [tmp_path / "alone", tmp_path / "a/b/deep"]
