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
from importlib import resources
from pathlib import Path
from typing import Any

from geoact import __version__, files
from geoact.experiments.catalogue import EXPERIMENTS
from geoact.report import paper
from geoact.report.collect import Cell, Record, Score, cells, group
from geoact.report.style import METHOD_COLORS

MAX_VIDEO = 20_000_000
"""Larger clips are named instead of carried along."""
VIDEOS = {"video.gif": "image/gif", "video.mp4": "video/mp4"}


def build(
    records: list[Record], skipped: list[str], out: Path, kind: Score = "eval", title: str = "Runs"
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
    table = group(records)
    sections = [
        ("summary", "Summary", summary(records, skipped)),
        ("curves", "Learning curves", '<div class="charts" data-kind="curves"></div>' if records else ""),
        ("paper", "Against the paper", paper_tables(records, skipped, kind)),
        ("compare", "All variants", comparison(table, kind)),
        (
            "dynamics",
            "Inside the policy",
            '<div class="charts" data-kind="dynamics"></div>' if records else "",
        ),
        ("rollouts", "Rollouts", rollouts(records)),
        ("sphere-section", "The action sphere", '<div id="sphere"></div>' if has_sphere else ""),
        ("runs", "Runs", run_list(records)),
        ("skipped", "Skipped", _list(skipped)),
    ]
    shown = [(anchor, name, body) for anchor, name, body in sections if body]
    nav = "".join(f'<a href="#{anchor}">{name}</a>' for anchor, name, _ in shown)
    body = "".join(
        f'<section id="{anchor}"><h2>{name}</h2>{inner}</section>' for anchor, name, inner in shown
    )
    data = json.dumps(chart_data(records), allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
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


def summary(records: list[Record], skipped: list[str]) -> str:
    """Tiles with the numbers of the whole."""
    done = sum(r.rows[-1]["step"] if r.rows else 0 for r in records)
    hours = sum(r.rows[-1].get("time/elapsed", 0.0) if r.rows else 0.0 for r in records) / 3600
    states = {
        state: sum(r.state == state for r in records)
        for state in ("finished", "running", "stopped", "failed")
    }
    tiles = [("runs", len(records)), *((name, number) for name, number in states.items() if number)]
    tiles += [("tasks", len({r.config.env for r in records})), ("variants", len({r.label for r in records}))]
    tiles += [("transitions", f"{done:,.0f}"), ("hours of training", f"{hours:,.2f}")]
    if skipped:
        tiles.append(("skipped", len(skipped)))
    cards = "".join(f"<div><b>{_text(value)}</b><span>{_text(name)}</span></div>" for name, value in tiles)
    return f'<div class="tiles">{cards}</div>' + ("" if records else "<p>There are no runs here yet.</p>")


def html_table(table: paper.Table) -> str:
    """A table of the paper module as HTML."""
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


def paper_tables(records: list[Record], skipped: list[str], kind: Score) -> str:
    """Those of the paper's tables that any run belongs to."""
    parts = []
    for name in (*paper.TABLES, "beyond"):
        experiment = EXPERIMENTS[name]
        found = cells(experiment, records)
        # A table without numbers of the paper's is only worth its place for what is its own.
        own = [
            cell
            for cell in found.values()
            if experiment.paper or experiment.variants[cell.label].paper is None
        ]
        if any(cell.records for cell in own):
            parts.append(html_table(paper.as_printed(experiment, found, kind, [])))
            together = paper.aggregate(name, experiment.title, found, kind)
            parts += [html_table(together)] if together is not None else []
    return "".join(parts)


def comparison(table: dict[tuple[str, str], Cell], kind: Score) -> str:
    return html_table(paper.details("all", "Every variant on every task", table, kind)) if table else ""


def rollouts(records: list[Record]) -> str:
    """One clip per task and variant, where there is one."""
    parts: dict[tuple[str, str], str] = {}
    for record in records:
        key = record.config.env, record.label
        for name, kind in VIDEOS.items():
            path = record.path / name
            if key in parts or not path.is_file():
                continue
            size = path.stat().st_size
            caption = f"{record.config.env} · {record.label} · seed {record.config.seed}"
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


def run_list(records: list[Record]) -> str:
    """Every run with its configuration."""
    parts = []
    for record in records:
        config = record.config
        score = record.score("eval")
        facts = [record.state, f"{config.timesteps:,} transitions", f"seed {config.seed}"]
        facts += [f"return {paper.number(score)}"] if score is not None else []
        facts += [record.reason] if record.reason else []
        plain = json.dumps(dataclasses.asdict(config), indent=2, default=str)
        parts.append(
            f'<details class="run {_text(record.state)}"><summary><b>{_text(record.path.name)}</b> '
            f"<span>{_text(' · '.join(facts))}</span></summary><pre>{_text(plain)}</pre></details>"
        )
    return "".join(parts)


def chart_data(records: list[Record]) -> dict[str, Any]:
    """What the charts draw: for each run its columns, five digits each; None where a row has no value."""
    data = []
    for record in records:
        names = sorted(
            {name for row in record.rows for name in row if name.startswith(("eval/", "charts/", "policy/"))}
        )
        names = [name for name in names if name not in ("eval/return_std", "charts/SPS")]
        data.append(
            {
                "task": record.config.env,
                "label": record.label,
                "name": record.path.name,
                "transitions": [row["step"] for row in record.rows],
                "updates": [row.get("updates", 0) for row in record.rows],
                "hours": [_short(row.get("time/elapsed", 0.0) / 3600) for row in record.rows],
                "metrics": {name: [_short(row.get(name)) for row in record.rows] for name in names},
            }
        )
    known = list(METHOD_COLORS)
    labels = sorted(
        {r.label for r in records}, key=lambda name: (known.index(name) if name in known else 99, name)
    )
    return {"runs": data, "labels": labels}


def _short(value: float | None) -> float | None:
    return float(f"{value:.5g}") if value is not None and math.isfinite(value) else None
