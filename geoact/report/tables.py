"""One table, several readers: Markdown for people, CSV for programs, LaTeX for a paper.

A cell is text, a whole number, a number or None (not measured). Markdown and LaTeX show numbers as their
column's format asks (by default four significant digits); CSV keeps six, so that a rerun gives the same bytes.
"""

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from geoact.files import write_bytes

Cell = str | int | float | None

_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "&": r"\&",
        "%": r"\%",
        "$": r"\$",
        "#": r"\#",
        "_": r"\_",
        "{": r"\{",
        "}": r"\}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
    }
)


def write_table(
    stem: Path,
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    note: str = "",
    formats: Mapping[str, str] | None = None,
    latex: bool = False,
) -> list[Path]:
    """Write `stem`.md and `stem`.csv (and `stem`.tex): the files written.

    `formats` maps a column's name to a format for its numbers, such as ".2f" or ",.0f".
    """
    formats = formats or {}
    for row in rows:
        if len(row) != len(columns):
            raise ValueError(
                f"a row of {stem.name} has {len(row)} cells for {len(columns)} columns: {list(row)}"
            )
    if unknown := set(formats) - set(columns):
        raise ValueError(f"formats for columns that {stem.name} does not have: {', '.join(sorted(unknown))}")
    shown = [[_show(cell, formats.get(name, ".4g")) for name, cell in zip(columns, row)] for row in rows]
    numeric = [all(isinstance(row[i], int | float | None) for row in rows) for i in range(len(columns))]
    texts = {".md": _markdown(title, columns, shown, numeric, note), ".csv": csv_text(columns, rows)}
    if latex:
        texts[".tex"] = _tabular(columns, shown, numeric, title)
    stem.parent.mkdir(parents=True, exist_ok=True)
    paths = []
    for suffix, text in texts.items():
        path = stem.with_name(stem.name + suffix)
        write_bytes(path, text.encode())
        paths.append(path)
    return paths


def _show(cell: Cell, spec: str) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bool | str):
        return str(cell)
    if isinstance(cell, int):
        return f"{cell:,}" if spec.startswith(",") else str(cell)
    text = format(float(cell), spec)
    # -0.000 is a number only to a computer
    return text[1:] if text.startswith("-") and not any(c in "123456789infa" for c in text[1:]) else text


def _markdown(
    title: str, columns: Sequence[str], shown: list[list[str]], numeric: list[bool], note: str
) -> str:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    rule = "|" + "|".join("--:" if right else "---" for right in numeric) + "|"
    lines = [f"# {title}", "", line(columns), rule, *(line(row) for row in shown), ""]
    if note:
        lines += [note, ""]
    return "\n".join(lines)


def csv_text(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """The table as CSV, numbers to six digits."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([f"{c:.6g}" if isinstance(c, float) else ("" if c is None else c) for c in row])
    return out.getvalue()


def _tabular(columns: Sequence[str], shown: list[list[str]], numeric: list[bool], title: str) -> str:
    def line(cells: Sequence[str]) -> str:
        return " & ".join(cell.translate(_LATEX) for cell in cells) + r" \\"

    spec = "".join("r" if right else "l" for right in numeric)
    body = [line(columns), r"\midrule", *(line(row) for row in shown)]
    head = [f"% {title} (needs booktabs)", rf"\begin{{tabular}}{{{spec}}}", r"\toprule"]
    return "\n".join([*head, *body, r"\bottomrule", r"\end{tabular}", ""])
