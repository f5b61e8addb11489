"""What the theory page claims to be checked is checked: the tests it names exist, and so do the files it shows."""

import re
from pathlib import Path

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
