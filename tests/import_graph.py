"""The import graph of the repository's modules, and its cycles."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple


class ImportEdge(NamedTuple):
    """An import of one package or module by another."""

    start: str
    end: str


def source_files(root: Path, parts: Iterable[str], package: str) -> dict[str, Path]:
    """Return the modules of a package and their files, without generated ones."""
    modules = {
        ".".join(file.relative_to(root / part).with_suffix("").parts).removesuffix(".__init__"): file
        for part in parts
        for file in sorted((root / part / "nomemory").rglob("*.py"))
        if "_pb2" not in file.stem
    }
    return {module: file for module, file in modules.items() if is_within(module, package)}


def is_within(module: str, *packages: str) -> bool:
    """Return whether a module is one of some packages or is within one of them."""
    return any(f"{module}.".startswith(f"{package}.") for package in packages)


@cache
def imports(file: Path) -> frozenset[str]:
    """Return all imports of a file, including nested ones and those for type checking."""
    return frozenset(name for node in ast.walk(ast.parse(file.read_text("utf-8"))) for name in _imported(node))


def _imported(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module:
        yield node.module
        if node.module.startswith("nomemory"):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def between_packages(modules: Mapping[str, Path]) -> dict[ImportEdge, str]:
    """Return the imports between packages, each with one example.

    A package is a folder. A module next to packages counts as a package.
    """
    folders = {file.parent for file in modules.values()}
    mixed = {outer for folder in folders for outer in folder.parents}
    packages = {
        module: module if file.parent in mixed or file.stem == "__init__" else module.rpartition(".")[0]
        for module, file in modules.items()
    }
    return {
        ImportEdge(packages[module], packages[name]): f"{module} imports {name}"
        for module, file in modules.items()
        for name in sorted(imports(file))
        if name in modules and packages[name] != packages[module]
    }


def between_files(modules: Mapping[str, Path]) -> dict[ImportEdge, str]:
    """Return the imports between modules, without those of `__init__`."""
    return {
        ImportEdge(module, name): f"{module} imports {name}"
        for module, file in modules.items()
        for name in sorted(imports(file))
        if name in modules and name != module and not is_within(module, name)
    }


def on_cycles(arrows: Mapping[ImportEdge, str]) -> dict[ImportEdge, str]:
    """Return the imports that are part of a cycle."""
    targets: dict[str, set[str]] = {}
    for start, end in arrows:
        targets.setdefault(start, set()).add(end)
    return {arrow: witness for arrow, witness in arrows.items() if arrow.start in _reached(arrow.end, targets)}


def _reached(start: str, targets: Mapping[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    ahead = [start]
    while ahead:
        for target in targets.get(ahead.pop(), set()) - seen:
            seen.add(target)
            ahead.append(target)
    return seen
