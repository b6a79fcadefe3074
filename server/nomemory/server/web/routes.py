"""Finds the binding of a request by its verb and path."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

from nomemory.server.faults import Fault, Reason
from nomemory.server.web.bindings import Binding


@dataclass(frozen=True, slots=True)
class Match:
    """A binding, and the values of the fields that are in its path."""

    binding: Binding
    values: tuple[str, ...]


class Routes:
    """The bindings by their paths.

    A path is taken apart before its parts are decoded: a slash within an id is `%2F`, and leads nowhere else.
    """

    def __init__(self, bindings: Iterable[Binding]) -> None:
        self._by_length: dict[int, list[Binding]] = defaultdict(list)
        for binding in bindings:
            self._by_length[len(binding.segments)].append(binding)
        for same in self._by_length.values():
            same.sort(key=lambda binding: len(binding.variables))  # a literal goes before a variable

    def match(self, verb: str, raw_path: bytes) -> Match | None:
        """Return what a request is for; None: nothing has this verb at this path.

        Raises:
            Fault: MALFORMED_REQUEST, a part of the path is not UTF-8.
        """
        return next((match for match in self._at(raw_path) if match.binding.verb == verb), None)

    def verbs(self, raw_path: bytes) -> list[str]:
        """Return the verbs that there are at a path."""
        return sorted({match.binding.verb for match in self._at(raw_path)})

    def _at(self, raw_path: bytes) -> Iterator[Match]:
        raw = raw_path.removeprefix(b"/").split(b"/")
        for binding in self._by_length.get(len(raw), ()):
            if (values := _values(binding, raw)) is not None:
                yield Match(binding, values)


def _values(binding: Binding, raw: list[bytes]) -> tuple[str, ...] | None:
    for segment, part in zip(binding.segments, raw, strict=True):
        if segment.literal and segment.literal.encode() != part and segment.literal.encode() != unquote_to_bytes(part):
            return None
    return tuple(_text(part) for segment, part in zip(binding.segments, raw, strict=True) if segment.field)


def _text(part: bytes) -> str:
    try:
        return unquote_to_bytes(part).decode()
    except UnicodeDecodeError:
        raise Fault(Reason.ERROR_REASON_MALFORMED_REQUEST, "the path is not UTF-8") from None
