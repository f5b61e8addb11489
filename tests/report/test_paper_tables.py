import csv
from pathlib import Path

import pytest

from geoact import cli
from geoact.analysis import reproduction, studies
from geoact.analysis.reproduction import reproduce
from geoact.config import GACConfig
from geoact.errors import InputError
from geoact.experiments.catalogue import EXPERIMENTS
from geoact.experiments.paper_numbers import paper_numbers
from geoact.report import paper_tables
from geoact.report.collect import collect, groups_of
from tests.report.test_collect import make_run

RESULTS = Path(__file__).parents[2] / "results"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two variants of Table 3, two seeds each, one more failed; and one of Table A.2 with a learned scale."""
    for seed, default, narrow in ((0, 100.0, 50.0), (10, 300.0, 70.0)):
        make_run(tmp_path / "runs", f"default{seed}", seed=seed, score=default)
        make_run(tmp_path / "runs", f"narrow{seed}", GACConfig(radius=1.5), seed=seed, score=narrow)
    plain = GACConfig(normalize_direction=False, normalize_mixture=False)
    make_run(tmp_path / "runs", "plain", plain, state="failed")
    learned = GACConfig(scale="learned")
    make_run(tmp_path / "runs", "learned", learned, env="Walker2d-v4", algorithm="gac-scale")
    return tmp_path


def read_markdown(path: Path, key: int = 1) -> dict[str, dict[str, str]]:
    """A Markdown table: first column (or another) -> column -> entry."""
    lines = [line for line in path.read_text().splitlines() if line.startswith("|")]
    rows = [[entry.strip() for entry in line.split("|")[1:-1]] for line in lines]
    return {row[key - 1]: dict(zip(rows[0], row)) for row in rows[2:]}


def test_table3_by_hand(folder: Path) -> None:
    assert cli.main(["paper", "table3", "--runs", str(folder / "runs"), "--out", str(folder / "out")]) == 0
    rows = read_markdown(folder / "out" / "table3.md")
    assert rows["default (kappa, r=2.5)"] == {
        "variant": "default (kappa, r=2.5)",
        "ours, training": "40.00 ± 0.00 (n=2)",
        "paper (training)": "12,750 ± 758 (n=5)",
        "ours, evaluation": "200 ± 141 (n=2)",
        "our transitions": "8,000",
        "our vector steps": "1,000",
        "paper's vector steps": "1,000,000",
        "relative, ours": "0 %",
        "relative, paper": "0 %",
    }
    assert rows["r=1.5"]["ours, evaluation"] == "60.00 ± 14.14 (n=2)"
    assert rows["r=1.5"]["relative, paper"] == "-43.0 %"  # 7,272 of 12,750
    assert rows["r=3.5"]["ours, training"] == "no runs"
    failed = rows["without normalization (no-normalization)"]
    assert failed["ours, training"] == "1 failed (diverged at vector step 1,000)"
    assert rows["without normalization (no-normalization-raw)"]["ours, training"] == "no runs"
    text = (folder / "out" / "table3.md").read_text()
    assert "are training returns" in text and "geoact sweep table3 makes them" in text
    assert "The paper differs from itself" in text
    with open(folder / "out" / "table3_details.csv") as file:
        details = {row["variant"]: row for row in csv.DictReader(file)}
    assert float(details["r=2.5"]["evaluation mean"]) == 200.0 and details["r=2.5"]["seeds"] == "2"
    # with two seeds, both may be the worse one
    assert float(details["r=2.5"]["evaluation IQM low"]) == 100.0
    assert float(details["r=2.5"]["training mean"]) == 40.0
    assert details["r=2.5"]["transitions"] == "8000" and details["r=2.5"]["vector steps"] == "1000"
    assert r"\toprule" in (folder / "out" / "table3.tex").read_text()


def test_a_mean_never_stands_without_seeds_and_budget(folder: Path) -> None:
    runs, _ = collect(folder / "runs")
    for name in ("table1", "table2", "table3", "tableA2", "beyond"):
        experiment = EXPERIMENTS[name]
        table = paper_tables.as_printed(experiment, groups_of(experiment, runs), [])
        steps = [table.columns.index(f"our {unit}") for unit in ("transitions", "vector steps")]
        for row in table.rows:
            for column, entry in zip(table.columns, row):
                if column.startswith("ours") and isinstance(entry, str) and "±" in entry:
                    assert "(n=" in entry and all(row[place] for place in steps)


def test_pusher_and_ppo_are_explained_beside_their_numbers() -> None:
    table = paper_tables.as_printed(EXPERIMENTS["table1"], groups_of(EXPERIMENTS["table1"], []), [])
    rows = {(row[0], row[1]): dict(zip(table.columns, row)) for row in table.rows}
    assert ("Pusher-v4 (ours: Pusher-v5)", "gac") in rows
    assert any(note.startswith("Pusher-v4: run as Pusher-v5") for note in table.notes)
    assert rows["Hopper-v4", "ppo"]["paper's vector steps"] == "1,000,000 or 125,000"
    assert rows["Hopper-v4", "sac"]["paper's vector steps"] == 1_000_000
    assert any(note.startswith("PPO: CleanRL's PPO counts transitions") for note in table.notes)


@pytest.mark.parametrize("name", paper_tables.FROM_RUNS)
def test_every_table_and_figure_is_written_from_whatever_is_there(folder: Path, name: str) -> None:
    done = reproduce(name, folder / "runs", folder / "out")
    suffixes = (".md", ".csv", ".tex") if paper_tables.ITEMS[name].kind == "table" else (".png", ".svg")
    for suffix in suffixes:
        assert (folder / "out" / f"{name}{suffix}").stat().st_size > 100
    assert all(path.exists() for path in done.written)
    (line,) = done.missing
    assert "have no finished run: geoact sweep" in line


def test_a_figure_of_runs_that_all_ended_lacks_nothing(tmp_path: Path) -> None:
    for radius in (1.0, 2.0, 3.0):
        make_run(tmp_path / "runs", f"r{radius}", GACConfig(radius=radius), env="Walker2d-v4")
    learned = GACConfig(scale="learned")
    make_run(tmp_path / "runs", "l", learned, env="Walker2d-v4", algorithm="gac-scale")
    softplus = GACConfig(scale="learned", scale_form="softplus")
    make_run(tmp_path / "runs", "s", softplus, env="Walker2d-v4", algorithm="gac-scale", state="failed")
    assert not reproduce("figA4", tmp_path / "runs", tmp_path / "out").missing


def test_the_learned_scale_stands_beside_the_papers_with_both_budgets(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["paper", "figA4", "--runs", str(folder / "runs"), "--out", str(folder / "out")]) == 0
    assert "# Table A.2: fixed and learned scale on Walker2d: the learned scale" in capsys.readouterr().out
    rows = read_markdown(folder / "out" / "figA4.md", key=2)
    assert rows["learned"] == {
        "task": "Walker2d-v4",
        "variant": "learned",
        "mean scale, ours": "2.00 (n=1)",
        "mean scale, paper": "1.7",
        "range of the mean over training, ours": "2.00 to 2.00",
        "range over training, paper": "",
        "deviation over dimensions, ours": "0.50 (n=1)",
        "deviation over dimensions, paper": "0.7 to 0.9",
        "our transitions": "8,000",
        "our vector steps": "1,000",
        "paper's vector steps": "500,000",
        "remarks": "",
    }
    assert rows["learned-softplus"]["mean scale, ours"] == "no runs"


def test_the_learned_scale_of_the_committed_runs(tmp_path: Path) -> None:
    (answer,) = reproduce("figA3", RESULTS, tmp_path).answers
    assert answer.table == tmp_path / "figA3.md"
    rows = read_markdown(tmp_path / "figA3.md")
    assert len(rows) == 6 and rows["fish-upright"]["range over training, paper"] == "1 to 2.2"
    walker = rows["walker-walk"]
    assert walker["mean scale, ours"].startswith("2.99 ") and walker["mean scale, paper"] == "2 to 2.3"
    assert walker["our transitions"] == "320,000" and walker["remarks"] == "2 with another budget left out"


def test_the_learned_scale_of_version_01s_runs(tmp_path: Path) -> None:
    reproduce("figA3", RESULTS / "walker-walk", tmp_path)
    walker = read_markdown(tmp_path / "figA3.md")["walker-walk"]
    assert walker["mean scale, ours"].startswith("2.91 ")
    assert walker["deviation over dimensions, ours"] == "not logged"  # version 0.1's is another quantity
    assert walker["our transitions"] == "276,000 to 310,000" and walker["remarks"] == "2 unfinished"


NOT_SHOWN = ("source", "protocol", "contradictions")


@pytest.mark.parametrize("name", [name for name in paper_numbers() if name not in NOT_SHOWN])
def test_every_name_in_the_papers_numbers_answers(name: str) -> None:
    item = paper_tables.resolve(name)
    assert paper_tables.ITEMS[item].numbers == name
    assert paper_tables.how_to_make(item).startswith("geoact ")


@pytest.mark.parametrize("name", [*paper_numbers(), *paper_tables.ITEMS])
def test_every_name_is_answered_from_the_committed_results(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a table, or files, or the command that makes them; studies that take minutes are not made here."""
    if name in NOT_SHOWN:
        return

    def analyze(study: str, out: Path, runs: list[Path] | None = None, seed: int = 0) -> list[Path]:
        studies.check(study, runs or [])
        return [out / f"{study}.md"]

    monkeypatch.setattr(reproduction, "analyze", analyze)
    (answer,) = reproduce(name, RESULTS, tmp_path).answers
    assert answer.about and (answer.written or answer.missing or answer.name == "fig1")


def test_figure_a2_is_made_of_the_committed_policies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["paper", "figA2", "--runs-dir", str(RESULTS), "--out", str(tmp_path)]) == 0
    made = read_markdown(tmp_path / "saturation.md")
    committed = read_markdown(RESULTS / "analysis" / "saturation.md")
    share = "without gradient, exploring"
    assert list(made) == ["sac-HalfCheetah-v4"] and (tmp_path / "saturation.png").exists()
    # Episodes drift apart where arithmetic rounds otherwise.
    assert float(made["sac-HalfCheetah-v4"][share]) == pytest.approx(
        float(committed["sac-HalfCheetah-v4"][share]), abs=0.03
    )
    assert "46.4 % without gradient for SAC" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("Table A.2", "tableA2"),
        ("figureA3", "figA3"),
        ("Figure 3", "fig3"),
        ("TABLE1", "table1"),
        ("fig5", "fig4"),  # as version 0.1 had it
    ],
)
def test_names_are_understood_as_the_paper_writes_them(given: str, meant: str) -> None:
    assert paper_tables.resolve(given) == meant


def test_all_says_how_to_make_what_is_missing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["paper", "all", "--runs", str(folder / "runs"), "--out", str(folder / "out")]) == 0
    said = capsys.readouterr().out
    for name in paper_tables.ITEMS:
        assert f"{name}: {paper_tables.ITEMS[name].about}" in said
        assert (f"missing: {name}: " in said) == (name != "fig1")
    assert "called fig3 in version 0.1" in said
    assert "| r=1.5 | 40.00 ± 0.00 (n=2) | 7,272 ± 1,235 (n=5) |" in said
    assert "missing: tableA1: geoact analyze concentration" in said
    assert (
        "missing: figA3: 6 of 6 entries have no finished run: geoact sweep table2 --algorithms gac-scale"
        in said
    )
    assert "geoact import FILE.pt" in said


@pytest.mark.slow
def test_all_shows_what_was_made_before(tmp_path: Path) -> None:
    """On the committed results, every study and the checkpoints answer with numbers."""
    answers = {answer.name: answer for answer in reproduce("all", RESULTS, tmp_path / "out").answers}
    for name in ("tableA1", "tableA3", "figA1", "figA2", "checkpoints"):
        table = answers[name].table
        assert table is not None and table.is_file() and not answers[name].missing
    rows = read_markdown(tmp_path / "out" / "checkpoints.md")
    assert rows["Walker2d-v4"]["published"] == "5,889 ± 47" and rows["Walker2d-v4"]["ours"] == "5,886 ± 24"


@pytest.mark.slow
def test_a_study_is_made_when_it_is_asked_for(folder: Path) -> None:
    done = reproduce("tableA1", folder / "runs", folder / "out")
    assert folder / "out" / "concentration.md" in done.written and not done.missing
    with pytest.raises(
        InputError, match=r"figA2 looks at policies trained on HalfCheetah.*geoact analyze saturation"
    ):
        reproduce("figA2", folder / "runs", folder / "out")


def test_unknown_names_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["paper", "table9", "--runs", str(folder)]) == 2
    assert "unknown table or figure 'table9'" in capsys.readouterr().err
    assert cli.main(["paper", "table1", "--runs", str(folder / "none")]) == 2
    assert "is not a directory" in capsys.readouterr().err
