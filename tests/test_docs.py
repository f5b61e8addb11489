"""What pages claim holds: import paths work, and the tests, commands and files that they name exist."""

import contextlib
import importlib
import importlib.util
import re
from pathlib import Path

import pytest

from geoact import commands, runtime
from geoact.analysis.studies import STUDIES, check
from geoact.commands.analyze import Analyze
from geoact.commands.compare import Compare
from geoact.commands.paper import Paper
from geoact.commands.sweep import Sweep
from geoact.experiments.catalogue import EXPERIMENTS
from geoact.experiments.sweep import plan_sweep
from geoact.report import paper_tables

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "theory.md").read_text(encoding="utf-8")


def test_every_test_that_the_theory_page_names_exists():
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    defined = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert len(named) > 20
    assert named <= defined, sorted(named - defined)


@pytest.mark.parametrize("page", ["theory", "method", "experiments"])
def test_every_file_that_a_page_links_to_exists(page):
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    links = set(re.findall(r"\]\(([^)#:]+)\)", text))
    assert len(links) > 3
    missing = [link for link in links if not (ROOT / "docs" / link).exists()]
    assert not missing


@pytest.mark.parametrize(
    "page", ["README.md", *(f"docs/{p.name}" for p in sorted((ROOT / "docs").glob("*.md")))]
)
def test_every_study_experiment_and_item_that_a_page_names_exists(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    for study in re.findall(r"geoact analyze ([a-z]+)", text):
        assert study in STUDIES
    for item in re.findall(r"geoact paper (\w+)", text):
        assert item == "all" or paper_tables.resolve(item) == item
    for experiment in re.findall(r"geoact sweep ([\w./]+)", text):
        assert experiment in EXPERIMENTS or (ROOT / experiment).is_file()


PAGES = [path for folder in ("", "docs", "results", "benchmarks") for path in (ROOT / folder).glob("*.md")]


def found(name: str) -> bool:
    """Whether a dotted name is a module, or something in one."""
    module, _, attribute = name.rpartition(".")
    with contextlib.suppress(ModuleNotFoundError):
        if importlib.util.find_spec(name) is not None:
            return True
    return bool(module) and hasattr(importlib.import_module(module), attribute)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_import_path_on_a_page_works(page: Path):
    text = page.read_text(encoding="utf-8")
    names = set(re.findall(r"(?<![\w./-])geoact(?:\.[A-Za-z_]\w*)+(?![\w/-])", text))
    names |= set(re.findall(r"python -m ([\w.]+\w)", text))
    for module, taken in re.findall(r"from (geoact[\w.]*) import ([\w, ]+)", text):
        names |= {f"{module}.{name.strip()}" for name in taken.split(",")}
    missing = [name for name in sorted(names) if not found(name)]
    assert not missing, f"{page.name} names {missing}"


METHOD = (ROOT / "docs" / "method.md").read_text(encoding="utf-8")
CLAIMS = [
    [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
    for line in METHOD.partition("| claim |")[2].partition("\n\n")[0].splitlines()[2:]
]
COMMAND = re.compile(r"`((?:geoact|pytest) [^`]+)`")
COMMANDS = sorted({command for row in CLAIMS for cell in row for command in COMMAND.findall(cell)})


def test_every_claim_has_a_verdict_a_finding_and_a_command():
    assert len(CLAIMS) > 30
    for claim, verdict, finding, command in CLAIMS:
        assert verdict in ("holds", "corrected", "does not hold", "not tested"), claim
        assert finding and not finding.endswith(":"), claim
        assert command.startswith(("`geoact ", "`pytest ")) and command.endswith("`"), claim


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_of_the_claims_is_understood_in_a_clone(command: str, monkeypatch: pytest.MonkeyPatch):
    """By the real command line; and what it reads is there."""
    monkeypatch.chdir(ROOT)
    program, *words = command.split()
    for word in words:
        assert "/" not in word or Path(word).exists(), f"{word} is not part of the repository"
    if program == "pytest":
        return
    options = commands.find()[words[0]].parse(words[1:])
    if isinstance(options, Paper):
        item = paper_tables.ITEMS[paper_tables.resolve(options.what)]
        needs_runs = item.kind != "study" or STUDIES[item.source].reads_runs
        assert options.runs_dir.is_dir() or not needs_runs, "runs/ is not part of the repository"
    elif isinstance(options, Analyze):
        check(options.study, list(options.runs))
        for path in options.runs:
            assert path.is_dir() if not str(path).startswith("zoo:") else runtime.find(path).is_dir()
    elif isinstance(options, Compare):
        assert options.runs and all(path.is_dir() for path in options.runs)
    else:
        assert isinstance(options, Sweep)
        assert plan_sweep(options.experiment, options)[1]
