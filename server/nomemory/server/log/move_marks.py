"""What a log that is being moved, or has been, says in the place of its schema's version: no server serves it then."""

from __future__ import annotations

from typing import Final

UNFINISHED: Final = 1_000_001
"""The copy of another log, which is not complete yet."""
MOVED: Final = 1_000_002
"""A log whose messages are elsewhere since."""

MOVED_STATE: Final = "NM001"
"""The SQLSTATE with which a database answers to whoever writes to a log that was moved."""

_UNFINISHED: Final = """\
it is the unfinished copy of another log. Run `nomemory migrate` again, and in the end with --switch"""
_MOVED: Final = """\
its messages were moved to {where} with `nomemory migrate`, and writes go there since. {advice}"""


def refusal_of_file(version: int) -> str:
    """Return why a server cannot use a file; empty if it is not marked."""
    advice = "Set NOMEMORY_LOG to the URL of that database"
    return _refusal(version, "PostgreSQL", advice)


def refusal_of_database(version: int) -> str:
    """Return why a server cannot use a database; empty if it is not marked."""
    advice = "Start without NOMEMORY_LOG on the data directory that has them"
    return _refusal(version, "a data directory", advice)


def _refusal(version: int, where: str, advice: str) -> str:
    return {UNFINISHED: _UNFINISHED, MOVED: _MOVED.format(where=where, advice=advice)}.get(version, "")
