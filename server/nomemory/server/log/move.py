"""How a log is marked while it is moved from one engine to another, and afterwards."""

from __future__ import annotations

from enum import Enum
from typing import Final

UNFINISHED: Final = 1_000_001
"""In the place of the schema's version: the copy of another log, which is not complete yet. No server serves it."""
MOVED: Final = 1_000_002
"""In the place of the schema's version: a log whose messages were moved elsewhere. No server serves it."""

MOVED_STATE: Final = "NM001"
"""The SQLSTATE with which a database answers a write to a log that was moved."""

_UNFINISHED: Final = "it is the unfinished copy of another log. Run `nomemory migrate` again to finish it"
_MOVED: Final = "its messages were moved to {where} with `nomemory migrate`. {advice}"


def refusal_of_file(version: int) -> str:
    """Return why a server cannot use a file; empty if it is not marked."""
    return _refusal(version, "PostgreSQL", "Set NOMEMORY_LOG to the URL of that database")


def refusal_of_database(version: int) -> str:
    """Return why a server cannot use a database; empty if it is not marked."""
    return _refusal(version, "a data directory", "Start without NOMEMORY_LOG on the data directory that has them")


def _refusal(version: int, where: str, advice: str) -> str:
    return {UNFINISHED: _UNFINISHED, MOVED: _MOVED.format(where=where, advice=advice)}.get(version, "")


class Condition(Enum):
    """What a log is to a move."""

    EMPTY = "empty"
    """Nothing was ever written to it."""
    UNFINISHED = "unfinished"
    """The copy of another log, which no server uses yet."""
    IN_USE = "in use"
    MOVED = "moved"
    """Its messages were moved elsewhere."""
