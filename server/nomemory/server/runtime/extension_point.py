"""Parts that other packages add by name, through entry points (docs/extending.md)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

Part = TypeVar("Part")


class ExtensionError(ValueError):
    """No usable part has this name; the text says why, and which names exist."""


@dataclass(frozen=True, slots=True)
class ExtensionPoint(Generic[Part]):
    """A group of entry points.

    Attributes:
        group: the name of the group.
        built_in: names that are ours. No package can take them.
    """

    group: str
    built_in: tuple[str, ...]

    def load(self, name: str) -> Part:
        """Import the part that a package has registered under a name. Nothing else of the group is imported.

        Raises:
            ExtensionError: no package has registered it, more than one has, or it cannot be imported.
        """
        entry = self._entry(name)
        try:
            part: Part = entry.load()
        except (ImportError, AttributeError) as error:
            raise ExtensionError(f"{name!r} of {_package(entry)} cannot be imported: {error}") from error
        return part

    def _entry(self, name: str) -> EntryPoint:
        found = tuple(entry_points(group=self.group, name=name))
        if not found:
            raise ExtensionError(f"there is no {name!r}; there are {', '.join(self._names())}")
        if len(found) > 1:
            raise ExtensionError(f"several packages have a {name!r}: {', '.join(sorted(map(_package, found)))}")
        return found[0]

    def _names(self) -> Iterator[str]:
        yield from self.built_in
        yield from sorted(entry_points(group=self.group).names - set(self.built_in))


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist else entry.value
