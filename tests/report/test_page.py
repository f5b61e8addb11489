"""The page is looked at by a real browser where one is installed; its text is checked everywhere."""

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from geoact import cli
from geoact.config import GACConfig, RunConfig
from geoact.storage import runs
from tests.report.test_collect import make_run

HOSTILE = "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">&'\""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for seed, default, narrow in ((0, 100.0, 50.0), (10, 300.0, 70.0)):
        make_run(tmp_path / "runs", f"default{seed}", seed=seed, score=default)
        make_run(tmp_path / "runs", f"narrow{seed}", GACConfig(radius=1.5), seed=seed, score=narrow)
    make_run(tmp_path / "runs", "walker", env="Walker2d-v4", score=10.0)
    (tmp_path / "runs" / "default0" / "video.gif").write_bytes(
        bytes.fromhex(
            "47494638396101000100800000ffffff00000021f90401000000002c00000000010001000002024401003b"
        )
    )
    # A run whose every free text is hostile: name, environment, reason, label.
    settings = GACConfig().resolve(HOSTILE, 6, 8_000)
    config = RunConfig(HOSTILE, "gac", settings, timesteps=8_000, threads=1)
    path = make_run(tmp_path / "runs", "&<b>hostile<")
    data = json.loads((path / "run.json").read_text())
    data["config"] = dataclasses.asdict(config)
    (path / "run.json").write_text(json.dumps(data))
    runs.Run(path).set_status("failed", 1, 8_000, HOSTILE)
    (tmp_path / "runs" / "sweep.json").write_text(json.dumps({"runs": {"&<b>hostile<": HOSTILE}}))
    (tmp_path / "runs" / "broken").mkdir()
    (tmp_path / "runs" / "broken" / "run.json").write_text(f'{{"format": "{"<i>x"}"')
    return tmp_path


@pytest.fixture
def page(folder: Path) -> Path:
    out = folder / "report.html"
    assert cli.main(["report", "--runs", str(folder / "runs"), "--out", str(out), "--title", HOSTILE]) == 0
    return out


def test_the_page_is_self_contained_and_escaped(page: Path) -> None:
    text = page.read_text()
    assert "document.title='owned'</script>" not in text and "<img src=x" not in text
    assert text.count("<script") == 2 + ("geoactSphere" in text)  # the data, our code, and the sphere's
    for address in ("http://", "https://", "//cdn"):
        assert address not in text.replace("http://www.w3.org/2000/svg", "")  # a name, not an address
    assert "default-src 'none'" in text
    assert "Table 3" in text and "12,750 ± 758 (n=5)" in text and "200 ± 141 (n=2)" in text
    assert "data:image/gif;base64," in text
    assert "broken" in text  # what was skipped is named


def test_bad_input(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["report", "--runs", str(folder / "none")]) == 2
    assert "is not a directory" in capsys.readouterr().err
    assert cli.main(["report", "--runs", str(folder / "runs"), "--out", "page.pdf"]) == 2
    assert "ends in .html" in capsys.readouterr().err


def test_a_directory_without_runs_is_a_page_that_says_so(tmp_path: Path) -> None:
    assert cli.main(["report", "--runs", str(tmp_path), "--out", str(tmp_path / "r.html")]) == 0
    assert "There are no runs here yet." in (tmp_path / "r.html").read_text()


@pytest.fixture
def browser() -> Any:
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("needs Debian's chromium")
    with playwright.sync_playwright() as started:
        launched = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield launched
        launched.close()


def test_in_a_browser(page: Path, browser: Any) -> None:
    tab = browser.new_page(viewport={"width": 1280, "height": 900})
    complaints: list[str] = []
    tab.on("console", lambda message: complaints.append(message.text) if message.type != "log" else None)
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.on(
        "request",
        lambda request: (
            None if request.url.startswith(("file:", "data:")) else complaints.append(request.url)
        ),
    )
    tab.goto(page.as_uri())
    assert HOSTILE in tab.title()  # as text; the script in it did not run
    curves = tab.locator("#curves")
    cheetah = curves.locator("figure", has_text="HalfCheetah-v4").first
    assert cheetah.locator("path.curve").count() == 2 and cheetah.locator("polygon.band").count() == 2

    curves.locator(".legend button", has_text="gac radius=1.5").click()
    assert cheetah.locator("path.curve").count() == 1
    curves.locator(".legend button", has_text="gac radius=1.5").click()
    assert cheetah.locator("path.curve").count() == 2

    for axis, words in (("updates", "gradient updates"), ("hours", "hours"), ("transitions", "transitions")):
        curves.locator("select[data-choose=axis]").select_option(axis)
        assert cheetah.locator("svg text", has_text=words).count() == 1
        assert cheetah.locator("path.curve").count() == 2
    curves.locator("select[data-choose=metric]").select_option("charts/episodic_return")
    assert cheetah.locator("path.curve").count() == 2
    curves.locator("select[data-choose=metric]").select_option("eval/return_mean")

    cheetah.locator("svg").hover(position={"x": 300, "y": 100})
    assert "gac: 200 ± 141 (n=2)" in cheetah.locator(".tip").inner_text()

    before = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    tab.locator("#theme").click()
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") != before

    tab.emulate_media(media="print", color_scheme="dark")
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    tab.emulate_media(media="screen")

    tab.set_viewport_size({"width": 375, "height": 700})
    tab.wait_for_timeout(300)
    assert tab.evaluate("document.documentElement.scrollWidth") <= 375  # nothing sticks out on a phone
    assert not complaints
