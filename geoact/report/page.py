"""One self-contained HTML page about a directory of runs: works from disk, offline, on a phone and on paper.

Everything in the page comes from files that others may have written, so it is all treated as text: HTML is
escaped here, the data for the charts is JSON in a block that is never executed, the script sets text and never
markup, and a content security policy allows this page's own two scripts, by their hashes, and nothing else.
"""

import base64
import dataclasses
import hashlib
import html
import json
import math
import time
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from geoact import __version__
from geoact.errors import InputError
from geoact.experiments.catalogue import EXPERIMENTS
from geoact.report import comparison, evidence, paper_tables, searches
from geoact.report.collect import RunData, RunGroup, collect, group, groups_of
from geoact.report.searches import SearchData
from geoact.report.style import METHOD_COLORS
from geoact.report.tables import Table
from geoact.storage import files

MAX_VIDEO = 20_000_000
"""Larger clips are named instead of carried along."""
VIDEOS = {"video.gif": "image/gif", "video.mp4": "video/mp4"}


CHARTED = ("eval/", "charts/", "policy/", "losses/alpha", "losses/qf_values", "losses/values")
"""How the names of the metrics begin that the page's charts offer."""
NOT_CHARTED = ("eval/return_std", "charts/SPS")
STATES = ("finished", "running", "interrupted", "stopped", "failed")


def write_report(runs_dir: Path, out: Path, title: str | None = None) -> tuple[list[RunData], list[str]]:
    """Write the page about a directory of runs: those it shows, and a sentence for each that was skipped."""
    if out.suffix not in (".html", ".htm"):
        raise InputError(f"cannot write {out.name}: use a name that ends in .html")
    runs, skipped = collect(runs_dir)
    build(runs, skipped, out, title or runs_dir.resolve().name, searches.find(runs_dir))
    return runs, skipped


def build(
    runs: list[RunData],
    skipped: list[str],
    out: Path,
    title: str = "Runs",
    found: Sequence[SearchData] = (),
) -> None:
    """Write the page."""
    files_ = resources.files("geoact.report")
    css = files_.joinpath("page.css").read_text(encoding="utf-8")
    scripts = [files_.joinpath("page.js").read_text(encoding="utf-8")]
    sphere = files_.joinpath("sphere.js")
    has_sphere = sphere.is_file()
    if has_sphere:
        call = "geoactSphere(document.getElementById('sphere'));"
        scripts.append(f"{sphere.read_text(encoding='utf-8')}\n{call}\n")
    sections = [
        ("summary", "Summary", summary(runs, skipped)),
        ("curves", "Learning curves", '<div class="charts" data-kind="curves"></div>' if runs else ""),
        ("searches", "Search", search_results(found)),
        ("paper", "Tables, beside the paper's numbers", tables(runs)),
        ("compare", "All variants", all_variants(group(runs))),
        (
            "dynamics",
            "Inside the policy",
            '<div class="charts" data-kind="dynamics"></div>' if runs else "",
        ),
        ("rollouts", "Rollouts", rollouts(runs)),
        ("sphere-section", "The action sphere", '<div id="sphere"></div>' if has_sphere else ""),
        ("runs", "Runs", run_list(runs)),
        ("skipped", "Skipped", _list(skipped)),
    ]
    shown = [(anchor, name, body) for anchor, name, body in sections if body]
    nav = "".join(f'<a href="#{anchor}">{name}</a>' for anchor, name, _ in shown)
    body = "".join(
        f'<section id="{anchor}"><h2>{name}</h2>{inner}</section>' for anchor, name, inner in shown
    )
    data = json.dumps(chart_data(runs), allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    hashes = " ".join(f"'sha256-{_digest(script)}'" for script in scripts)
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src {hashes}; img-src data:; media-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    code = "".join(f"<script>{script}</script>" for script in scripts)
    stamp = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    page = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{_text(title)} · geoact</title>
<style>{css}</style>
</head>
<body>
<header><div class="inner"><h1>{_text(title)}</h1>
<p class="sub">geoact {_text(__version__)} · written {stamp}</p>
<nav>{nav}</nav><button id="theme" type="button" aria-label="switch between light and dark">◐</button></div></header>
<main>{body}</main>
<footer>Returns are per episode. “Transitions” count every environment's steps; a “vector step” is one step of all
environments together.</footer>
<script type="application/json" id="data">{data}</script>
{code}
</body>
</html>
"""
    out.parent.mkdir(parents=True, exist_ok=True)
    files.write_bytes(out, page.encode())


def _text(value: object) -> str:
    return html.escape(str(value), quote=True)


def _digest(script: str) -> str:
    assert "</script" not in script.lower()
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _list(lines: list[str]) -> str:
    return "<ul>" + "".join(f"<li>{_text(line)}</li>" for line in lines) + "</ul>" if lines else ""


def summary(runs: list[RunData], skipped: list[str]) -> str:
    """Tiles with the numbers of the whole."""
    done = sum(r.rows[-1]["step"] if r.rows else 0 for r in runs)
    hours = sum(r.rows[-1].get("time/elapsed", 0.0) if r.rows else 0.0 for r in runs) / 3600
    states = {state: sum(r.state == state for r in runs) for state in STATES}
    tiles = [("runs", len(runs)), *((name, number) for name, number in states.items() if number)]
    tiles += [("tasks", len({r.task for r in runs})), ("variants", len({r.label for r in runs}))]
    tiles += [("transitions", f"{done:,.0f}"), ("hours of training", f"{hours:,.2f}")]
    if skipped:
        tiles.append(("skipped", len(skipped)))
    cards = "".join(f"<div><b>{_text(value)}</b><span>{_text(name)}</span></div>" for name, value in tiles)
    return f'<div class="tiles">{cards}</div>' + ("" if runs else "<p>There are no runs here yet.</p>")


def html_table(table: Table) -> str:
    """A table as HTML."""
    numeric = [
        all(isinstance(row[i], int | float | None) for row in table.rows) for i in range(len(table.columns))
    ]
    head = "".join(
        f'<th class="{"num" if n else ""}">{_text(name)}</th>' for name, n in zip(table.columns, numeric)
    )
    rows = []
    for row in table.rows:
        line = []
        for name, cell in zip(table.columns, row):
            number = isinstance(cell, int | float)
            spec = table.formats.get(name, ".4g")
            shown = (
                ""
                if cell is None
                else format(cell, "," if isinstance(cell, int) else spec)
                if number
                else cell
            )
            faint = " faint" if shown in ("no runs", "not planned") else ""
            line.append(f'<td class="{"num" if number else ""}{faint}">{_text(shown)}</td>')
        rows.append(f"<tr>{''.join(line)}</tr>")
    notes = f"<details><summary>Notes</summary>{_list(table.notes)}</details>" if table.notes else ""
    return (
        f'<h3>{_text(table.title)}</h3><div class="wide"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>{notes}"
    )


def tables(runs: list[RunData]) -> str:
    """Those of the paper's tables, and of ours, that any run belongs to."""
    parts = []
    for name, item in paper_tables.ITEMS.items():
        if item.kind != "table":
            continue
        experiment = EXPERIMENTS[item.source]
        found = groups_of(experiment, runs)
        # A table without numbers of the paper's is only worth its place for what is its own.
        own = [
            member
            for member in found.values()
            if experiment.paper or experiment.variants[member.label].paper is None
        ]
        if not any(member.runs for member in own):
            continue
        form = paper_tables.OWN_FORMS.get(name)
        table = paper_tables.as_printed if form is None else form.table
        parts.append(html_table(table(experiment, found, [])))
        if name == "evidence":
            found = evidence.by_method(experiment, found)
        together = comparison.aggregate(name, experiment.title, found)
        parts += [html_table(together)] if together is not None else []
    return "".join(parts)


def all_variants(groups: dict[tuple[str, str], RunGroup]) -> str:
    """Every variant on every task, whether or not it is part of an experiment."""
    return html_table(comparison.details("all", "Every variant on every task", groups)) if groups else ""


def search_results(found: Sequence[SearchData]) -> str:
    """What searches have tried and what mattered."""
    parts = []
    for search in found:
        figures = "".join(
            f'<figure><img src="{uri}" alt="{_text(caption)}"><figcaption>{_text(caption)}</figcaption></figure>'
            for caption, uri in searches.pictures(search).items()
        )
        parts.append(f'{html_table(searches.table(search))}<div class="figures">{figures}</div>')
    return "".join(parts)


def rollouts(runs: list[RunData]) -> str:
    """One clip per task and variant, where there is one."""
    parts: dict[tuple[str, str], str] = {}
    for run in runs:
        key = run.task, run.label
        for name, kind in VIDEOS.items():
            path = run.path / name
            if key in parts or not path.is_file():
                continue
            size = path.stat().st_size
            caption = f"{run.task} · {run.label} · seed {run.config.seed}"
            if size > MAX_VIDEO:
                parts[key] = (
                    f"<figure><figcaption>{_text(caption)}: {_text(path)} ({size / 1e6:.0f} MB)</figcaption></figure>"
                )
                continue
            uri = f"data:{kind};base64,{base64.b64encode(path.read_bytes()).decode()}"
            alt = f'alt="{_text(caption)}" loading="lazy"'
            media = (
                f'<img src="{uri}" {alt}>'
                if kind == "image/gif"
                else f'<video src="{uri}" controls loop muted></video>'
            )
            parts[key] = f"<figure>{media}<figcaption>{_text(caption)}</figcaption></figure>"
    return f'<div class="rollouts">{"".join(parts.values())}</div>' if parts else ""


def run_list(runs: list[RunData]) -> str:
    """Every run with its configuration."""
    parts = []
    for run in runs:
        config = run.config
        steps = f"{config.timesteps:,} transitions = {config.vector_steps:,} vector steps"
        facts = [run.state, steps, f"seed {config.seed}"]
        for kind, word in comparison.KINDS.items():
            score = run.score(kind)
            facts += [f"{word} {comparison.number(score)}"] if score is not None else []
        facts += [run.reason] if run.reason else []
        plain = json.dumps(dataclasses.asdict(config), indent=2, default=str)
        parts.append(
            f'<details class="run {_text(run.state)}"><summary><b>{_text(run.path.name)}</b> '
            f"<span>{_text(' · '.join(facts))}</span></summary><pre>{_text(plain)}</pre></details>"
        )
    return "".join(parts)


def chart_data(runs: list[RunData]) -> dict[str, Any]:
    """What the charts draw: for each run its columns, five digits each; None where a row has no value."""
    data = []
    for run in runs:
        there = {name for row in run.rows for name in row}
        names = sorted(name for name in there if name.startswith(CHARTED) and name not in NOT_CHARTED)
        data.append(
            {
                "task": run.task,
                "label": run.label,
                "name": run.path.name,
                "transitions": [row["step"] for row in run.rows],
                "updates": [row.get("updates", 0) for row in run.rows],
                "hours": [_short(row.get("time/elapsed", 0.0) / 3600) for row in run.rows],
                "metrics": {name: [_short(row.get(name)) for row in run.rows] for name in names},
            }
        )
    known = list(METHOD_COLORS)
    labels = sorted(
        {r.label for r in runs}, key=lambda name: (known.index(name) if name in known else 99, name)
    )
    return {"runs": data, "labels": labels}


def _short(value: float | None) -> float | None:
    return float(f"{value:.5g}") if value is not None and math.isfinite(value) else None
