"""One table, several readers: Markdown for people, CSV for programs, LaTeX for a paper.

A value is text, a whole number, a number or None (not measured). Markdown and LaTeX show numbers as their
column's format asks (by default four significant digits); CSV keeps six, so that a rerun gives the same bytes.
"""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from geoact.storage.files import write_bytes

Value = str | int | float | None

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


@dataclass(frozen=True)
class Table:
    """A table before it is written."""

    name: str
    """Its file, without suffix."""
    title: str
    columns: list[str]
    rows: list[list[Value]]
    notes: list[str] = field(default_factory=list)
    formats: dict[str, str] = field(default_factory=dict)

    def write(self, folder: Path) -> list[Path]:
        """Markdown, CSV and LaTeX; the files written."""
        note = "\n".join(f"- {note}" for note in self.notes)
        return write_table(
            folder / self.name, self.title, self.columns, self.rows, note, self.formats, latex=True
        )


def write_table(
    stem: Path,
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[Value]],
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
                f"a row of {stem.name} has {len(row)} values for {len(columns)} columns: {list(row)}"
            )
    if unknown := set(formats) - set(columns):
        raise ValueError(f"formats for columns that {stem.name} does not have: {', '.join(sorted(unknown))}")
    shown = [[_show(value, formats.get(name, ".4g")) for name, value in zip(columns, row)] for row in rows]
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


def _show(value: Value, spec: str) -> str:
    if value is None:
        return ""
    if isinstance(value, bool | str):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}" if spec.startswith(",") else str(value)
    text = format(float(value), spec)
    # -0.000 is a number only to a computer
    return text[1:] if text.startswith("-") and not any(c in "123456789infa" for c in text[1:]) else text


def _markdown(
    title: str, columns: Sequence[str], shown: list[list[str]], numeric: list[bool], note: str
) -> str:
    def line(values: Sequence[str]) -> str:
        return "| " + " | ".join(value.replace("|", "\\|") for value in values) + " |"

    rule = "|" + "|".join("--:" if right else "---" for right in numeric) + "|"
    lines = [f"# {title}", "", line(columns), rule, *(line(row) for row in shown), ""]
    if note:
        lines += [note, ""]
    return "\n".join(lines)


def csv_text(columns: Sequence[str], rows: Sequence[Sequence[Value]]) -> str:
    """The table as CSV, numbers to six digits."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([f"{c:.6g}" if isinstance(c, float) else ("" if c is None else c) for c in row])
    return out.getvalue()


def _tabular(columns: Sequence[str], shown: list[list[str]], numeric: list[bool], title: str) -> str:
    def line(values: Sequence[str]) -> str:
        return " & ".join(value.translate(_LATEX) for value in values) + r" \\"

    spec = "".join("r" if right else "l" for right in numeric)
    body = [line(columns), r"\midrule", *(line(row) for row in shown)]
    head = [f"% {title} (needs booktabs)", rf"\begin{{tabular}}{{{spec}}}", r"\toprule"]
    return "\n".join([*head, *body, r"\bottomrule", r"\end{tabular}", ""])
