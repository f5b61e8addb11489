"""A summary is a few kilobytes, and every table reads it as the run itself."""

import json
from pathlib import Path

import numpy as np
import pytest

from geoact.analysis.reproduction import reproduce
from geoact.config import GACConfig, PPOConfig, RunConfig, SACConfig
from geoact.errors import InputError
from geoact.experiments import local
from geoact.experiments.sweep import Selection, plan_sweep
from geoact.report import curves, summaries
from geoact.report.collect import SCORES, collect, group, score_of
from geoact.report.page import write_report
from geoact.storage import runs
from tests.report.test_collect import make_run
from tests.training_cases import CRITIC, TINY, run_config, start

ROWS = 200


def long_run(folder: Path, name: str, seed: int = 0, settings: GACConfig | None = None) -> Path:
    """A run with as many rows as a real one, episodes of unequal numbers, and evaluations at every tenth row."""
    path = make_run(folder, name, settings, seed=seed, timesteps=80 * ROWS)
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(1, ROWS + 1):
        row = {"step": 80 * i, "updates": i, "charts/SPS": rng.normal(), "time/elapsed": 1.5 * i}
        row |= {
            "losses/qf_values": rng.normal(),
            "losses/qf_loss": rng.normal(),
            "policy/kappa": rng.normal(),
        }
        if i % 3 == 0:
            row |= {"charts/episodic_return": 1000 * rng.normal(), "charts/episodic_length": 1000.0}
            row["charts/episodes"] = int(rng.integers(1, 9))
        if i % 10 == 0:
            row |= {"eval/return_mean": 1000 * rng.normal(), "eval/return_std": abs(rng.normal())}
        rows.append(row)
    (path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for seed in (0, 10):
        long_run(tmp_path / "runs", f"default{seed}", seed)
        long_run(tmp_path / "runs", f"narrow{seed}", seed + 1, GACConfig(radius=1.5))
    make_run(tmp_path / "runs", "stopped", state="stopped", seed=42)
    labels = {"runs": {"narrow0": "narrow", "narrow10": "narrow"}, "experiment": "radius", "title": "Radius"}
    (tmp_path / "runs" / "sweep.json").write_text(json.dumps(labels))
    return tmp_path


def test_a_failed_run_is_summarised_as_failed(tmp_path: Path) -> None:
    make_run(tmp_path / "runs", "bad", state="failed")
    summaries.summarize(tmp_path / "runs", tmp_path / "results")
    (run,), _ = collect(tmp_path / "results")
    assert run.state == "failed" and run.reason == "diverged: far" and run.score("eval") is None


def test_summaries_have_the_scores_of_their_runs(folder: Path) -> None:
    done = summaries.summarize(folder / "runs", folder / "results")
    assert sorted(path.name for path in done.written) == ["default0", "default10", "narrow0", "narrow10"]
    assert done.left_out == ["stopped: stopped"]
    whole = {run.path.name: run for run in collect(folder / "runs")[0]}
    thinned, skipped = collect(folder / "results")
    assert len(thinned) == 4 and not skipped
    for summary in thinned:
        run = whole[summary.path.name]
        assert (summary.config, summary.label, summary.state) == (run.config, run.label, run.state)
        for kind in SCORES:
            assert summary.score(kind) == run.score(kind) == score_of(run.rows, run.config.timesteps, kind)
        assert len(summary.rows) <= summaries.MAX_ROWS < len(run.rows)
        chosen = (file for file in summary.path.iterdir() if file.name != "run.json")  # that one is as it was
        assert sum(file.stat().st_size for file in chosen) < 7_000
        assert not any("losses/qf_loss" in row or "charts/SPS" in row for row in summary.rows)


def test_every_evaluation_and_every_episode_is_in_a_summary(folder: Path) -> None:
    summaries.summarize(folder / "runs", folder / "results")
    whole, thinned = (collect(folder / name)[0] for name in ("runs", "results"))
    for run, summary in zip(whole, thinned):
        evaluations = [(row["step"], value) for row, value in run.series("eval/return_mean")]
        assert [(row["step"], value) for row, value in summary.series("eval/return_mean")] == [
            (step, pytest.approx(value, rel=1e-4)) for step, value in evaluations
        ]
        for read in (run, summary):
            assert read.rows[-1]["step"] == run.config.timesteps

        def total(read) -> float:
            return sum(value * row["charts/episodes"] for row, value in read.series("charts/episodic_return"))

        assert total(summary) == pytest.approx(total(run), rel=1e-3)


def test_tables_are_the_same_bytes_from_summaries(folder: Path) -> None:
    (folder / "runs" / "stopped" / "run.json").unlink()  # it has no summary
    summaries.summarize(folder / "runs", folder / "results")
    for name in ("table1", "table3", "evidence"):
        written = reproduce(name, folder / "runs", folder / "from-runs").written
        again = reproduce(name, folder / "results", folder / "from-results").written
        assert [path.name for path in written] == [path.name for path in again]
        for one, other in zip(written, again):
            if one.suffix in (".md", ".csv", ".tex"):
                assert one.read_bytes() == other.read_bytes(), one.name
    figures = [curves.curve(group(collect(folder / place)[0])["HalfCheetah-v4", "gac"].counted(), "eval/return_mean")
               for place in ("runs", "results")]  # fmt: skip
    assert figures[0] is not None and figures[1] is not None
    np.testing.assert_allclose(figures[0].mean, figures[1].mean, rtol=1e-4)
    found, _ = write_report(folder / "results", folder / "report.html")
    assert len(found) == 4 and "narrow" in (folder / "report.html").read_text()


def test_summaries_grow_and_can_be_made_again(folder: Path) -> None:
    summaries.summarize(folder / "runs", folder / "results")
    before = {path: path.read_bytes() for path in (folder / "results").rglob("*") if path.is_file()}
    long_run(folder / "more", "third", 42)
    summaries.summarize(folder / "more", folder / "results")
    labels = json.loads((folder / "results" / "sweep.json").read_text())
    assert labels["runs"] == {
        "default0": "gac",
        "default10": "gac",
        "narrow0": "narrow",
        "narrow10": "narrow",
    } | {"third": "gac"}
    assert labels["experiment"] == "radius"
    summaries.summarize(folder / "results", folder / "copy")  # a summary of a summary is the summary
    for path, content in before.items():
        if path.name != "sweep.json":
            assert (folder / "copy" / path.relative_to(folder / "results")).read_bytes() == content


def test_a_run_is_never_thinned_in_its_place(folder: Path) -> None:
    with pytest.raises(InputError, match="holds the runs themselves"):
        summaries.summarize(folder / "runs", folder / "runs")
    long_run(folder / "other", "default0")
    before = (folder / "other" / "default0" / "metrics.jsonl").read_bytes()
    with pytest.raises(InputError, match="is a run, not a summary"):
        summaries.summarize(folder / "runs", folder / "other")
    assert (folder / "other" / "default0" / "metrics.jsonl").read_bytes() == before


@pytest.mark.parametrize("count", [0, 1, 39, 40, 41, 1000])
@pytest.mark.parametrize("every", [1, 7, 10_000])
def test_thinning_keeps_to_its_limit(count: int, every: int) -> None:
    rows = [{"step": i} | ({"eval/return_mean": float(i)} if i % every == 0 else {}) for i in range(count)]
    thinned = summaries.thin(rows)
    assert len(thinned) <= 40 and (count > 40 or len(thinned) == count)
    steps = [row["step"] for row in thinned]
    assert steps == sorted(set(steps)) and steps[-1:] == [row["step"] for row in rows[-1:]]
    if count:
        assert ("eval/return_mean" in thinned[-1]) == ("eval/return_mean" in rows[-1])


def test_a_sweep_counts_a_summary_as_the_finished_run(tmp_path: Path) -> None:
    _, planned = plan_sweep(
        "table1", Selection(budget="2400", seeds="2", tasks=("Hopper-v4",), algorithms=("gac",))
    )
    for run in planned:
        path = runs.create_at(tmp_path / "sweep" / run.name, run.config).path
        (path / "metrics.jsonl").write_text(
            '{"step": 2400, "eval/return_mean": 7.0, "eval/return_std": 0.0}\n'
        )
    runs.Run(tmp_path / "sweep" / planned[0].name).set_status("finished", 2400, 2400)
    summaries.summarize(tmp_path / "sweep", tmp_path / "results")
    jobs = local.inspect(planned, tmp_path / "results")
    assert [(job.state, job.done, job.score) for job in jobs] == [
        ("finished", 2400, 7.0),
        ("waiting", 0, None),
    ]


def learned(folder: Path, timesteps: int) -> Path:
    """A real run on a probe, with one row of metrics for every eight transitions."""
    config = run_config(
        "sac",
        SACConfig(actor=TINY, critic=CRITIC, batch_size=8, learning_starts=4),
        timesteps,
        num_envs=2,
        evaluations=timesteps // 8,
        eval_episodes=1,
        log_points=timesteps // 8,
        threads=1,
    )
    with start(config, folder) as session:
        assert session.train()
        assert session.run is not None
        return session.run.path


@pytest.mark.parametrize(("total", "part"), [(160, 80), (104, 80)])
def test_the_beginning_of_a_run_is_the_shorter_run(total: int, part: int, tmp_path: Path) -> None:
    """Also where the one is 1.3 times as long as the other."""
    long, short = (learned(tmp_path / str(length), length) for length in (total, part))
    done = summaries.summarize(tmp_path / f"{total}", tmp_path / "from-long", timesteps=part)
    summaries.summarize(tmp_path / f"{part}", tmp_path / "from-short", timesteps=part)
    assert not done.left_out and [path.name for path in done.written] == [f"{long.name}__{part}t"]
    (one,), (other,) = (collect(tmp_path / name)[0] for name in ("from-long", "from-short"))
    assert other.path.name == short.name  # it is as long as asked for
    assert runs.identity(one.config) == runs.identity(other.config)
    assert one.state == "finished" and one.summary == other.summary
    for row, expected in zip(one.rows, other.rows, strict=True):
        assert {k: v for k, v in row.items() if k not in runs.CLOCK_KEYS} == {
            k: v for k, v in expected.items() if k not in runs.CLOCK_KEYS
        }


def test_what_a_shorter_run_would_not_have_been_is_left_out(folder: Path, tmp_path: Path) -> None:
    total = 80 * ROWS
    done = summaries.summarize(folder / "runs", folder / "results", timesteps=total // 2)
    assert len(done.written) == 0
    assert sum("has a shorter warm-up" in line for line in done.left_out) == 4
    learned(tmp_path / "probe", 160)
    for length, reason in ((76, "evaluated at other steps"), (16, "has a shorter warm-up")):
        (line,) = summaries.summarize(tmp_path / "probe", tmp_path / "out", timesteps=length).left_out
        assert reason in line
    make_run(tmp_path / "failed", "early", GACConfig(learning_starts=1), state="failed", timesteps=8_000)
    (line,) = summaries.summarize(tmp_path / "failed", tmp_path / "out", timesteps=2_000).left_out
    assert "ended before 2,000" in line
    cooled = GACConfig(cool_down=0.3, learning_starts=1).resolve("Hopper-v4", 3, 8_000)
    make_run(tmp_path / "cooled", "early", cooled, timesteps=8_000)
    (line,) = summaries.summarize(tmp_path / "cooled", tmp_path / "out", timesteps=4_000).left_out
    assert "cools down at its own end" in line
    ppo = PPOConfig(rollout=64)
    ppo_run = runs.create_at(tmp_path / "ppo" / "p", RunConfig("Hopper-v4", "ppo", ppo, timesteps=8_000))
    ppo_run.set_status("finished", 8_000, 8_000)
    (ppo_run.path / "metrics.jsonl").write_text('{"step": 8000}\n')
    (line,) = summaries.summarize(tmp_path / "ppo", tmp_path / "out", timesteps=4_000).left_out
    assert "depends on the length of its run" in line
