"""Extensions that other packages register through entry points (docs/extending.md)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

Extension = TypeVar("Extension")


class ExtensionError(ValueError):
    """An extension is not registered, is registered by several packages, or cannot be loaded."""


@dataclass(frozen=True, slots=True)
class ExtensionPoint(Generic[Extension]):
    """A group of entry points through which packages register extensions of one kind.

    Attributes:
        group: the name of the entry point group.
        built_in: the names of the built-in implementations, for error messages.
    """

    group: str
    built_in: tuple[str, ...]

    def load(self, name: str) -> Extension:
        """Import and return the extension that is registered under a name, without importing other extensions.

        Raises:
            ExtensionError: no package has registered the name, several packages have, or the import fails.
        """
        entry = self._find_entry_point(name)
        try:
            extension: Extension = entry.load()
        except (ImportError, AttributeError) as error:
            raise ExtensionError(f"cannot import {name!r} from {_get_package_name(entry)}: {error}") from error
        return extension

    def _find_entry_point(self, name: str) -> EntryPoint:
        entries = tuple(entry_points(group=self.group, name=name))
        if not entries:
            raise ExtensionError(f"unknown name {name!r}; available: {', '.join(self._list_entry_point_names())}")
        if len(entries) > 1:
            packages = ", ".join(sorted(map(_get_package_name, entries)))
            raise ExtensionError(f"{name!r} is registered by several packages: {packages}; uninstall all but one")
        return entries[0]

    def _list_entry_point_names(self) -> Iterator[str]:
        yield from self.built_in
        yield from sorted(entry_points(group=self.group).names - set(self.built_in))


def _get_package_name(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist else entry.value
