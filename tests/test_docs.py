"""What pages claim holds: import paths work, and the tests and files that the theory page names exist."""

import contextlib
import importlib
import importlib.util
import re
from pathlib import Path

import pytest

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


def test_every_file_that_the_theory_page_links_to_exists():
    links = set(re.findall(r"\]\(([^)#]+)\)", PAGE))
    assert len(links) > 10
    missing = [link for link in links if not (ROOT / "docs" / link).exists()]
    assert not missing


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
