"""The commands of `geoact`, one module each. Adding a file here adds a command.

A command is a module with a function `run(options) -> int`, which gives the exit code. Its options are a frozen
dataclass: the docstring is the help text, and its first line the summary in `geoact --help`; every field is an
argument, with a docstring of its own. The module's name is the command's (`list_.py` is `geoact list`, `import_.py`
is `geoact import`); a name that begins with an underscore is no command. A module whose arguments depend on each
other (train) has its own `parse(argv) -> options` and `flags()`.

What a command does can be called from Python, too:

    from geoact.commands.sweep import Sweep, run

    run(Sweep("table1", budget="0.01"))

Nothing is imported before it is used: names come from the folder and summaries from the source, so that
`geoact --help` appears at once. For the same reason the modules import what computes inside `run`.
"""

import ast
import importlib
import pkgutil
import typing
from dataclasses import dataclass
from importlib.machinery import FileFinder
from types import ModuleType
from typing import Any


@dataclass(frozen=True)
class Command:
    """A command that has not been imported yet."""

    name: str
    """As it is typed."""
    module: str
    """Where it is."""
    source: str
    """The module's text."""

    @property
    def summary(self) -> str:
        """What the command does, in one line: the first of its options' docstring."""
        tree = ast.parse(self.source)
        (run,) = (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "run")
        kind = run.args.args[0].annotation
        assert isinstance(kind, ast.Name), f"{self.module}.run must say which options it takes"
        (options,) = (n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == kind.id)
        return (ast.get_docstring(options) or "").partition("\n")[0].removesuffix(".")

    def load(self) -> ModuleType:
        """The module itself."""
        return importlib.import_module(self.module)

    def options(self) -> type:
        """The dataclass that says what the command takes."""
        return typing.get_type_hints(self.load().run)["options"]

    def parse(self, argv: list[str]) -> Any:
        """The options that arguments stand for; bad ones are an InputError."""
        module = self.load()
        if hasattr(module, "parse"):
            return module.parse(argv)
        from geoact.commands._arguments import parse

        return parse(self.options(), self.name, argv)

    def flags(self) -> dict[str, tuple[str, ...]]:
        """Every flag that the command knows, with the values to choose from where they are few."""
        module = self.load()
        if hasattr(module, "flags"):
            return module.flags()
        from geoact.commands._arguments import flags

        return flags(self.options())

    def __call__(self, argv: list[str]) -> int:
        """Run it; the exit code."""
        return self.load().run(self.parse(argv))


def find() -> dict[str, Command]:
    """All commands by name."""
    found = {}
    for finder, module, _ in pkgutil.iter_modules(__path__, f"{__name__}."):
        stem = module.rpartition(".")[2]
        if stem.startswith("_"):
            continue
        assert isinstance(finder, FileFinder)
        spec = finder.find_spec(module)
        source = spec.loader.get_source(module) if spec is not None and spec.loader is not None else None  # type: ignore[attr-defined]
        name = stem.removesuffix("_").replace("_", "-")
        found[name] = Command(name, module, source or "")
    return found
