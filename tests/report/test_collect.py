import json
from pathlib import Path

import pytest

from geoact.config import CriticConfig, GACConfig, RunConfig, defaults
from geoact.errors import InputError
from geoact.experiments.catalogue import DMCONTROL, EXPERIMENTS, MUJOCO
from geoact.report import collect
from geoact.storage import runs


def make_run(
    folder: Path,
    name: str,
    settings: GACConfig | None = None,
    env: str = "HalfCheetah-v4",
    seed: int = 0,
    score: float | None = 100.0,
    state: runs.RunState = "finished",
    timesteps: int = 8_000,
    algorithm: str = "gac",
) -> Path:
    """A run directory as training leaves it, with known numbers."""
    resolved = (settings or GACConfig()).resolve(env, 6, timesteps)
    config = RunConfig(env, algorithm, resolved, timesteps=timesteps, seed=seed, threads=1)
    run = runs.create_at(folder / name, config)
    rows = [
        {"step": timesteps // 2, "updates": 1, "charts/episodic_return": 1.0, "charts/episodes": 8},
        {"step": timesteps, "updates": 2, "charts/episodic_return": 40.0, "charts/episodes": 8},
    ]
    for row, share in zip(rows, (0.5, 1.0)):
        row |= {
            "time/elapsed": 10 * share,
            "policy/kappa": 1.0,
            "policy/scale": 2.0,
            "policy/scale_deviation": 0.5,
        }
        if score is not None:
            row |= {"eval/return_mean": share * score, "eval/return_std": 0.0}
    (run.path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run.set_status(state, timesteps, timesteps, "diverged: far" if state == "failed" else None)
    return run.path


def test_runs_of_another_length_belong_to_another_experiment(tmp_path: Path) -> None:
    """Unless there are no others: then a table shows what there is, and says its budget."""
    own = 40_000 * 8
    fast = defaults("gac-fast").resolve("HalfCheetah-v4", 6, own)
    assert isinstance(fast, GACConfig)
    for length in (own // 2, own + 96_000):
        make_run(tmp_path, f"{length}", fast, timesteps=length, algorithm="gac-fast")
    members = collect.groups_of(EXPERIMENTS["evidence"], collect.collect(tmp_path)[0])
    assert members["HalfCheetah-v4", "gac-fast"].budget == (own + 96_000, 8)
    make_run(tmp_path, "own", fast, timesteps=own, algorithm="gac-fast")
    runs_ = collect.collect(tmp_path)[0]
    members = collect.groups_of(EXPERIMENTS["evidence"], runs_)["HalfCheetah-v4", "gac-fast"]
    assert members.budget == (own, 8) and members.remarks() == []
    assert collect.groups_of(EXPERIMENTS["fast"], runs_)["HalfCheetah-v4", "gac-fast"].budget == (
        own + 96_000,
        8,
    )


def test_scores_are_the_last_evaluation_or_the_last_tenth_of_training(tmp_path: Path) -> None:
    run = collect.read_run(make_run(tmp_path, "a", score=123.0))
    assert run.score("eval") == 123.0
    assert run.score("training") == 40.0
    assert collect.read_run(make_run(tmp_path, "b", state="stopped")).score("eval") is None


def test_foreign_and_broken_runs_are_skipped_and_named(tmp_path: Path) -> None:
    make_run(tmp_path / "sweep", "good")
    for name, content in (
        ("foreign", '{"format": "other"}'),
        ("cut", '{"format": "geoact-run", "sch'),
        ("newer", '{"format": "geoact-run", "schema": 99}'),
        ("empty", '{"format": "geoact-run", "schema": 1}'),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text(content)
    no_status = make_run(tmp_path, "no-status")
    (no_status / "status.json").unlink()
    bad_row = make_run(tmp_path, "bad-row")
    (bad_row / "metrics.jsonl").write_text('{"step": 8}\n{"step": "nine"}\n')
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "readme.txt").write_text("not a run")
    found, skipped = collect.collect(tmp_path)
    assert [run.path.name for run in found] == ["good"]
    names = [line.split(":")[0] for line in skipped]
    assert names == ["bad-row", "cut", "empty", "foreign", "newer", "no-status"]
    assert "line 2" in skipped[0]


@pytest.mark.parametrize("step", ["NaN", "Infinity", '"nine"', "null"])
def test_trust_20_a_row_whose_step_is_no_number_is_named(tmp_path: Path, step: str) -> None:
    (make_run(tmp_path, "bad") / "metrics.jsonl").write_text(f'{{"step": 1}}\n{{"step": {step}}}\n')
    found, skipped = collect.collect(tmp_path)
    assert not found and len(skipped) == 1 and skipped[0].endswith("is damaged in line 2")


def test_a_missing_directory_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a directory"):
        collect.collect(tmp_path / "none")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (GACConfig(), "gac"),
        (GACConfig(radius=1.5), "gac radius=1.5"),
        (GACConfig(exploration="entropy"), "gac exploration=entropy"),
        (GACConfig(exploration="entropy", slack=1), "gac slack=1 exploration=entropy"),
        (GACConfig(critic=CriticConfig(layer_norm=True)), "gac critic.layer_norm=True"),
    ],
)
def test_a_run_is_described_by_what_differs(settings: GACConfig, said: str) -> None:
    config = RunConfig("HalfCheetah-v4", "gac", settings.resolve("HalfCheetah-v4", 6, 8_000), timesteps=8_000)
    assert collect.describe(config) == said


def test_runs_find_their_group_by_configuration(tmp_path: Path) -> None:
    make_run(tmp_path, "a")
    make_run(tmp_path, "b", GACConfig(radius=2.5), seed=10)  # the default, spelled out
    make_run(tmp_path, "c", GACConfig(radius=1.5))
    make_run(tmp_path, "d", GACConfig(scale="learned"), env="walker-walk", algorithm="gac-scale")
    found, _ = collect.collect(tmp_path)
    first = collect.groups_of(EXPERIMENTS["table1"], found)
    assert first["HalfCheetah-v4", "gac"].scores("eval") == {0: 100.0, 10: 100.0}
    third = collect.groups_of(EXPERIMENTS["table3"], found)
    assert third["HalfCheetah-v4", "r=2.5"].scores("eval") == {0: 100.0, 10: 100.0}
    assert third["HalfCheetah-v4", "r=1.5"].scores("eval") == {0: 100.0}
    second = collect.groups_of(EXPERIMENTS["table2"], found)
    assert second["walker-walk", "gac-scale"].scores("eval") == {0: 100.0}


def test_a_group_counts_one_budget_and_one_run_per_seed_and_says_the_rest(tmp_path: Path) -> None:
    make_run(tmp_path, "a", score=1.0)
    make_run(tmp_path, "again", score=2.0)  # the same seed and budget once more
    make_run(tmp_path, "longer", timesteps=16_000, score=7.0)
    make_run(tmp_path, "longer-failed", timesteps=16_000, seed=10, state="failed")
    make_run(tmp_path, "longer-running", timesteps=16_000, seed=42, state="running")
    found, _ = collect.collect(tmp_path)
    members = collect.groups_of(EXPERIMENTS["table1"], found)["HalfCheetah-v4", "gac"]
    assert members.budget == (16_000, 8)
    assert members.scores("eval") == {0: 7.0}
    failed = "1 failed (diverged at vector step 2,000)"
    assert members.remarks() == [failed, "1 unfinished", "1 with another budget left out"]


def test_labels_come_from_the_sweep(tmp_path: Path) -> None:
    make_run(tmp_path, "a", GACConfig(radius=3.5))
    assert collect.collect(tmp_path)[0][0].label == "gac radius=3.5"
    (tmp_path / "sweep.json").write_text('{"runs": {"a": "wide"}}')
    assert collect.collect(tmp_path)[0][0].label == "wide"


@pytest.mark.parametrize("task", MUJOCO + DMCONTROL, ids=lambda task: task.env)
def test_action_sizes_are_the_environments(task) -> None:
    from geoact import environments

    env = environments.make(task.env)
    assert env.action_space.shape == (task.action_dim,)
    env.close()


def test_trust_06_links_are_followed_and_counted_once(tmp_path: Path) -> None:
    """What `geoact list` shows is in the report, too."""
    make_run(tmp_path / "elsewhere", "a")
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "linked").symlink_to(tmp_path / "elsewhere" / "a")
    (tmp_path / "runs" / "again").symlink_to(tmp_path / "elsewhere" / "a")
    (tmp_path / "runs" / "loop").symlink_to(tmp_path / "runs")
    (tmp_path / "runs" / "broken").symlink_to(tmp_path / "nowhere")
    found, skipped = collect.collect(tmp_path / "runs")
    assert [run.path.name for run in found] == ["again"] and not skipped


def test_trust_06_a_killed_run_is_interrupted(tmp_path: Path) -> None:
    """status.json says it is running, and no process holds its lock."""
    path = make_run(tmp_path, "killed", state="running")
    assert collect.read_run(path).state == "interrupted"
    with open(path / "lock", "wb") as file:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX)
        assert collect.read_run(path).state == "running"


def test_trust_06_both_names_of_a_task_are_one(tmp_path: Path) -> None:
    for seed, env in enumerate(("walker-run", "dm_control/walker-run", "dm_control/walker-run-v0")):
        make_run(tmp_path, f"run{seed}", GACConfig(scale="learned"), env, seed, algorithm="gac-scale")
    (members,) = collect.group(collect.collect(tmp_path)[0]).values()
    assert members.task == "walker-run" and list(members.scores("eval")) == [0, 1, 2]


def test_trust_21_an_unreadable_folder_is_named_and_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_run(tmp_path, "good")
    (tmp_path / "secret").mkdir()
    usual = Path.iterdir

    def iterdir(self: Path):
        if self.name == "secret":
            raise PermissionError(13, "Permission denied", str(self))
        return usual(self)

    monkeypatch.setattr(Path, "iterdir", iterdir)
    found, skipped = collect.collect(tmp_path)
    assert [run.path.name for run in found] == ["good"]
    assert len(skipped) == 1 and "secret cannot be read: Permission denied" in skipped[0]


def test_numbers_that_are_not_finite_are_no_scores(tmp_path: Path) -> None:
    path = make_run(tmp_path, "a")
    rows = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    rows[-1] |= {"eval/return_mean": float("nan"), "charts/episodic_return": float("inf")}
    (path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = collect.read_run(path)
    assert run.score("eval") == 50.0 and run.score("training") is None


def test_a_failure_says_when(tmp_path: Path) -> None:
    """In vector steps, as the paper counts, and in updates where the reason has them; what is the same, once."""
    reasons = {
        0: "diverged: the mean value is 9e9 at update 400, and the rewards seen allow at most 1",
        1: "losses/qf_loss became nan at update 12: the last good policy is kept",
        2: "diverged: the mean value is 9e9 at update 1200, and the rewards seen allow at most 1",
        3: "",
    }
    reached = {seed: 43_200 + 8_000 * seed for seed in reasons}
    reasons[4], reached[4] = reasons[0], reached[0]
    for seed, reason in reasons.items():
        path = make_run(tmp_path, f"s{seed}", seed=seed, state="failed")
        runs.Run(path).set_status("failed", reached[seed], 240_000, reason)
    (members,) = collect.group(collect.collect(tmp_path)[0]).values()
    assert members.remarks() == [
        "5 failed (diverged at vector step 5,400 (update 400) and 7,400 (update 1,200), "
        "losses/qf_loss became nan at vector step 6,400 (update 12), "
        "no reason given at vector step 8,400)"
    ]


def test_the_committed_run_that_diverged_says_when() -> None:
    found, _ = collect.collect(Path(__file__).parents[2] / "results" / "free-kappa")
    (members,) = collect.group(found).values()
    assert members.remarks() == ["1 failed (diverged at vector step 5,400 (update 400))"]
