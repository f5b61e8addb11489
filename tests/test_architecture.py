"""Imports point downwards: the levels of the library, read from its source; and what must start without JAX."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import geoact

PACKAGE = Path(geoact.__file__).parent
LEVELS = (
    ("errors", "machine", "checks"),
    ("policies", "transitions"),
    ("config",),
    ("storage",),
    ("sphere", "networks", "critics"),
    ("runtime",),
    ("algorithms",),
    ("environments",),
    ("training",),
    ("agent", "deploy"),
    ("experiments", "statistics"),
    ("report",),
    ("analysis",),
    ("commands",),
    ("cli", "__main__"),
)
"""From low to high. A module imports its own level and what lies below."""
KNOWN = {("geoact.deploy.card", "geoact.report.video"), ("geoact.commands.train", "geoact.commands.resume")}
"""Inside functions: a card has a replay, which is filmed by what makes figures; and `geoact train` offers to go on
with an unfinished run, by `geoact resume`, which ends as `geoact train` does."""
LIGHT = ("experiments", "storage", "report", "analysis", "commands", "config", "runtime", "deploy")


@dataclass(frozen=True)
class Import:
    """One module's import of another."""

    source: str
    target: str
    line: int

    def __str__(self) -> str:
        return f"{self.source} (line {self.line}) imports {self.target}"


def module_name(path: Path) -> str:
    parts = ("geoact", *path.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def level(module: str) -> int:
    """The level of the room that a module is in."""
    room = module.split(".")[1]
    return next(number for number, rooms in enumerate(LEVELS) if room in rooms)


def statements(tree: ast.AST) -> Iterator[ast.stmt]:
    """All statements, those in functions too, but not those for type checkers alone."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from statements(ast.Module(node.orelse, []))
            continue
        if isinstance(node, ast.stmt):
            yield node
        yield from statements(node)


def imports(module: str, source: str) -> Iterator[Import]:
    """What a module imports of this package, by the names of the modules."""
    for node in statements(ast.parse(source)):
        found: list[str] = []
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: relative imports are not used here"
            base = node.module or ""
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                found.append(inner if inner in MODULES else base)
        for target in found:
            if target.split(".")[0] == "geoact" and target != module:
                yield Import(module, target, node.lineno)


IMPORTS = [found for name, path in MODULES.items() for found in imports(name, path.read_text())]


def test_every_room_has_a_level():
    rooms = {name.split(".")[1] for name in MODULES if name.count(".")}
    placed = [room for rooms_ in LEVELS for room in rooms_]
    assert rooms - set(placed) == set()
    assert set(placed) - rooms == set() and len(placed) == len(set(placed))
    assert len(MODULES) > 60 and len(IMPORTS) > 200


def test_nothing_lower_imports_higher():
    wrong = [
        found
        for found in IMPORTS
        if found.source != "geoact"  # its names are imported on first use
        and found.target != "geoact"
        and level(found.target) > level(found.source)
        and (found.source, found.target) not in KNOWN
    ]
    assert not wrong, "\n".join(map(str, wrong))


def test_the_package_itself_offers_only_what_it_names():
    """`geoact/__init__` imports lazily, by name; of the package its modules take its version and place alone."""
    source = PACKAGE.joinpath("__init__.py").read_text()
    assert list(imports("geoact", source)) == []
    for name, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text())):
            taken: list[str] = []
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id == "geoact"
            ):
                taken = [node.attr]
            elif isinstance(node, ast.ImportFrom) and node.module == "geoact" and name != "geoact":
                taken = [alias.name for alias in node.names if f"geoact.{alias.name}" not in MODULES]
            assert set(taken) <= {"__version__", "__file__"}, f"{name} takes {taken} of geoact"


def cycles(edges: dict[str, set[str]]) -> list[list[str]]:
    """Groups of nodes that reach one another (Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(edges.get(node, ())):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            group = []
            while not group or group[-1] != node:
                group.append(stack.pop())
            if len(group) > 1:
                found.append(sorted(group))

    for node in sorted(edges):
        if node not in index:
            visit(node)
    return found


def test_every_module_has_its_test_file():
    """In the room of the same name; a leading or trailing underscore of a module's name is left out."""
    tests = Path(__file__).parent
    for path in MODULES.values():
        if path.stem not in ("__init__", "__main__"):
            expected = tests / path.relative_to(PACKAGE).with_name(f"test_{path.stem.strip('_')}.py")
            assert expected.is_file(), f"{path.name} has no {expected.relative_to(tests.parent)}"


@pytest.mark.parametrize("what", ["modules", "rooms"])
def test_there_is_no_cycle(what: str):
    edges: dict[str, set[str]] = {}
    for found in IMPORTS:
        if "geoact" in (found.source, found.target) or (found.source, found.target) in KNOWN:
            continue
        source, target = found.source, found.target
        if what == "rooms":
            source, target = source.split(".")[1], target.split(".")[1]
        elif source.startswith(target + "."):
            continue  # a package's own __init__ only gathers
        if source != target:
            edges.setdefault(source, set()).add(target)
    assert cycles(edges) == []


def test_the_checks_find_what_they_look_for():
    source = "if TYPE_CHECKING:\n    import geoact.agent\nelse:\n    import geoact.cli\n"
    source += "def f():\n    from geoact import agent\n"
    assert [found.target for found in imports("geoact.errors", source)] == ["geoact.cli", "geoact.agent"]
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"]]
    assert level("geoact.training.session") > level("geoact.storage.runs") > level("geoact.config")


def test_what_reads_and_draws_starts_without_jax():
    """The command line, sweeps, reports and the robot's runtime: one process that imports them all."""
    names = [name for name in MODULES if name.count(".") and name.split(".")[1] in LIGHT]
    assert len(names) > 40
    script = (
        "import importlib, sys\n"
        f"for name in {names!r}:\n"
        "    importlib.import_module(name)\n"
        "    assert 'jax' not in sys.modules, name\n"
        "    assert 'torch' not in sys.modules, name\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "module", ["geoact", "geoact.runtime", "geoact.config", "geoact.cli", "geoact.policies"]
)
def test_what_must_start_at_once_does_so_alone(module: str):
    """Also as the very first import, by either form."""
    parent, _, name = module.rpartition(".")
    form = f"from {parent} import {name}" if parent else f"import {module}"
    script = f"{form}\nimport sys\nassert not {{'jax', 'gymnasium', 'matplotlib'}} & set(sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
