"""Runs one line each: chosen, ordered, aligned. What `geoact list` prints is tested with the command."""

from geoact.report import listing
from geoact.report.listing import Listed


def run(
    name: str, env: str = "Hopper-v5", best: float | None = None, done: int = 10, created: str = ""
) -> Listed:
    return Listed(name, f"runs/{name}", "stopped", env, "gac", 0, done, 100, best, 5, created)


RUNS = [
    run("b", best=2.0, created="2025-01-02"),
    run("a", best=3.0, done=40, created="2025-01-01"),
    run("d", "walker-run", best=7.0),
    run("c", "dm_control/walker-run-v0"),
    Listed("x", "runs/x", "damaged", error="run.json"),
]


def names(runs: list[Listed]) -> str:
    return "".join(run.run for run in runs)


def test_chosen_by_everything_at_once():
    assert names(listing.chosen(RUNS, env="dm_control/walker-run")) == "dc"
    assert names(listing.chosen(RUNS, algorithm="sac")) == ""
    assert names(listing.chosen(RUNS, state="damaged")) == "x"


def test_ordered():
    assert names(listing.ordered(RUNS, "name")) == "abcdx"
    assert names(listing.ordered(RUNS, "best")) == "dabcx"
    assert names(listing.ordered(RUNS, "progress")) == "abcdx"
    assert names(listing.ordered(RUNS, "time"))[:2] == "ba"


def test_the_best_of_each_task_by_whatever_name():
    assert names(listing.best_of_each_task(RUNS)) == "ad"


def test_progress_of_what_is_not_known_is_none():
    assert RUNS[1].progress == 0.4 and RUNS[-1].progress == 0.0


def test_columns_are_aligned_and_nothing_is_cut():
    assert listing.columns([("run", "at"), ("a-long-name", "7")], frozenset({1})) == [
        "run          at",
        "a-long-name   7",
    ]
