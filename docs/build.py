"""Builds the documentation site: `make docs`, or `python docs/build.py`.

1. The pages, and whatever they link to inside the repository, are copied into build/docs with their layout kept, so
   that links work in the repository and on the site alike.
2. The tutorials are run, block by block, in a folder of their own, and what they print is put below each block.
3. A report page is made from the committed results.
4. Every name that the reference shows must have a docstring.
5. MkDocs builds site/, strictly: a broken link or anchor is an error.

In a tutorial, ```python is run, ```sh holds geoact commands that are run, a title="name" writes the block to that file,
and ```console is only shown.
"""

import argparse
import contextlib
import functools
import glob
import importlib
import inspect
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
STAGE = ROOT / "build" / "docs"
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
LINK = re.compile(r"(\]\(|<img[^>]*src=\")([^)\"\s]+)")
BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def stage() -> None:
    """Copy the pages and what they link to."""
    shutil.rmtree(STAGE, ignore_errors=True)
    waiting = [ROOT / name for name in PAGES] + sorted((ROOT / "docs").rglob("*.md"))
    seen: set[Path] = set()
    while waiting:
        source = waiting.pop()
        if source in seen or not source.is_file():
            continue
        seen.add(source)
        target = STAGE / source.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix != ".md":
            shutil.copyfile(source, target)
            continue
        text = source.read_text(encoding="utf-8")
        for folder in {link for link in links(text) if (source.parent / link).is_dir()}:
            text = text.replace(f"]({folder})", f"]({folder.rstrip('/')}/README.md)")
        target.write_text(text, encoding="utf-8")
        for link in links(text):
            linked = (source.parent / link).resolve()
            if linked.is_relative_to(ROOT):
                waiting.append(linked)
    shutil.copyfile(ROOT / "docs" / "site.css", STAGE / "docs" / "site.css")


def links(text: str) -> Iterator[str]:
    """The relative links of a page, without anchors."""
    for _, link in LINK.findall(text):
        target = link.partition("#")[0]
        if target and "://" not in target and not target.startswith("mailto:"):
            yield target


def run_tutorials(only: str = "") -> None:
    """Run the tutorials and put their output into the staged pages; the first thing that fails ends the build."""
    os.environ["COLUMNS"] = "110"
    for page in sorted((STAGE / "docs" / "tutorials").glob("*.md")):
        if only not in page.name or page.name == "README.md":
            continue
        began, before = time.monotonic(), (Path.cwd(), list(sys.path))
        text = page.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            sys.path.insert(0, folder)
            os.environ["PYTHONPATH"] = os.pathsep.join([folder, str(ROOT)])
            try:
                namespace: dict[str, Any] = {"__name__": "__main__"}
                text = BLOCK.sub(functools.partial(_with_output, namespace, page.name), text)
            finally:
                os.chdir(before[0])
                sys.path[:] = before[1]
        page.write_text(text, encoding="utf-8")
        print(f"ran {page.name} in {time.monotonic() - began:.0f} s", flush=True)


def _with_output(namespace: dict[str, Any], page: str, block: re.Match[str]) -> str:
    language, info, code = block.groups()
    title = re.search(r'title="([^"]+)"', info)
    if title is not None:
        Path(title[1]).write_text(code, encoding="utf-8")
        return block[0]
    if language not in ("python", "sh"):
        return block[0]
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            if language == "python":
                exec(compile(code, page, "exec"), namespace)
            else:
                _run_commands(code)
    except BaseException as error:
        print(f"{page}: this block failed:\n{code}\nit printed:\n{printed.getvalue()}", file=sys.stderr)
        raise SystemExit(f"{page}: {type(error).__name__}: {error}") from error
    shown = printed.getvalue().rstrip()
    return block[0] + (f'\n\n```text title="prints"\n{shown}\n```' if shown else "")


def _run_commands(code: str) -> None:
    """Run geoact commands in this process: starting one for each would take most of the time."""
    from geoact import cli

    for line in code.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if not words:
            continue
        if words[0] != "geoact":
            raise ValueError(f"only geoact commands are run, got {line!r}: use ```console to show another")
        words = [name for word in words for name in (sorted(glob.glob(word)) if "*" in word else [word])]
        target = None
        if ">" in words:
            words, target = words[: words.index(">")], words[words.index(">") + 1]
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed) if target else contextlib.nullcontext():
            code_ = cli.main(words[1:])
        if target:
            Path(target).write_text(printed.getvalue(), encoding="utf-8")
        if code_ != 0:
            raise ValueError(f"{line!r} ended with exit code {code_}")


def make_report() -> None:
    """An example of the report page, of what is committed."""
    from geoact.report.page import write_report

    out = STAGE / "docs" / "report-example.html"
    write_report(ROOT / "results", out, "geoact: committed results")


def missing_docstrings() -> list[str]:
    """The public names on the pages of the reference that say nothing about themselves."""
    missing = []
    for page in sorted((ROOT / "docs" / "reference").glob("*.md")):
        for name in re.findall(r"^::: ([\w.]+)$", page.read_text(encoding="utf-8"), re.MULTILINE):
            missing += [f"{page.name}: {found}" for found in _undocumented(name)]
    return missing


def _undocumented(name: str) -> Iterator[str]:
    module, attributes = name, list[str]()
    while True:  # a module, or something in one
        try:
            found: Any = importlib.import_module(module)
            break
        except ModuleNotFoundError:
            module, _, attribute = module.rpartition(".")
            attributes.insert(0, attribute)
    for attribute in attributes:
        found = getattr(found, attribute)
    if not _documented(found):
        yield name
    if inspect.ismodule(found):
        for inner, value in vars(found).items():
            own = getattr(value, "__module__", None) == found.__name__
            if own and not inner.startswith("_") and (inspect.isclass(value) or inspect.isfunction(value)):
                yield from _undocumented(f"{name}.{inner}")
    elif inspect.isclass(found):
        for inner, value in vars(found).items():
            method = inspect.isfunction(value) or isinstance(value, property | classmethod)
            if method and not inner.startswith("_") and not _documented(getattr(found, inner)):
                yield f"{name}.{inner}"


def _documented(value: Any) -> bool:
    text = inspect.getdoc(value) or ""  # a method that says nothing means what its base class says
    # A dataclass without a docstring gets its signature for one.
    return bool(text) and not (inspect.isclass(value) and text.startswith(f"{value.__name__}("))


def main() -> int:
    """Build; 0 if nothing is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="", help="run only the tutorials with this in their name")
    parser.add_argument("--no-run", action="store_true", help="show the tutorials without running them")
    options = parser.parse_args()
    stage()
    if not options.no_run:
        run_tutorials(options.only)
    make_report()
    missing = missing_docstrings()
    for name in missing:
        print(f"no docstring: {name}", file=sys.stderr)
    if missing:
        return 1
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NO_MKDOCS_2_WARNING": "1"}
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--quiet",
        "--config-file",
        "docs/mkdocs.yml",
    ]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main())
