"""What is moved when a log goes from one engine to another: rows, and the marks of a log that is not served."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple, Protocol

from nomemory.server.log.feed import StoredVersion
from nomemory.server.log.position import LogPosition

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


class Condition(Enum):
    """What a log is, to whoever moves one."""

    EMPTY = "empty"
    """Nothing was ever written to it."""
    UNFINISHED = "unfinished"
    """The copy of another log, which no server uses yet."""
    IN_USE = "in use"
    MOVED = "moved"
    """Its messages are elsewhere since."""


class UserState(NamedTuple):
    """What a log notes about a user, and how many of the user's requests it remembers."""

    user_id: str
    latest_sequence: int
    messages: int
    requests: int


class UserCounts(NamedTuple):
    """The state of a user, and how many rows there really are. `vectors` are callers' own; `entries` of metadata."""

    state: UserState
    messages: int
    vectors: int
    entries: int


VersionKey = tuple[str, int]
"""A user, and the sequence of a version of one of the user's messages."""


class StoredMessage(NamedTuple):
    """A row of a message, and the caller's own vector if it brought one."""

    user_id: str
    ts_us: int
    message_id: str
    sequence: int
    role: int
    conversation_id: str
    wire: bytes
    expire_us: int | None
    checksum: int
    vector: bytes | None


class StoredRequest(NamedTuple):
    """What is remembered of a request with an id (`given_ids`)."""

    user_id: str
    digest: bytes
    first_id: bytes
    size: int


class StoredRemoval(NamedTuple):
    """A version that is gone, and the change that removed it."""

    sequence: int
    user_id: str
    message_id: str
    removed_sequence: int


class Totals(NamedTuple):
    """How many rows a log has, and the sum of the sequences of its messages."""

    messages: int
    sequences: int
    vectors: int
    entries: int
    users: int
    requests: int
    removals: int


@dataclass(frozen=True, slots=True)
class Piece:
    """Changes to a copy that are made in one commit, in this order.

    Attributes:
        begun: users who get a state that no log has, unless they have one.
        gone: messages that go, by user and id.
        forgotten: requests that go.
        messages: rows that come.
        requests: requests that come.
        settled: the states of users who are complete now.
    """

    begun: Sequence[str] = ()
    gone: Sequence[tuple[str, str]] = ()
    forgotten: Sequence[StoredRequest] = ()
    messages: Sequence[StoredMessage] = ()
    requests: Sequence[StoredRequest] = ()
    settled: Sequence[UserState] = ()


class LogTables(Protocol):
    """Reads all rows of a log, expired ones, too. What it returns of messages is not checked."""

    async def position(self) -> LogPosition:
        """Return which log it is, and the sequence of its latest change."""

    async def last_id(self) -> int:
        """Return the number of the last id that was made; 0: none was."""

    async def users(self, after: str, limit: int) -> list[UserState]:
        """Return users in order of their ids, beyond one."""

    async def versions(self, user_ids: Sequence[str]) -> dict[str, list[StoredVersion]]:
        """Return what versions each of some users has, in the order in which they are kept."""

    async def messages(self, wanted: Sequence[VersionKey]) -> list[StoredMessage]:
        """Return versions; those that are gone are not in the answer."""

    async def requests(self, user_ids: Sequence[str]) -> list[StoredRequest]:
        """Return what is remembered of some users' requests."""

    async def removal_sequences(self) -> list[int]:
        """Return the sequences of all removals."""

    async def removals(self, sequences: Sequence[int]) -> list[StoredRemoval]:
        """Return removals; those that are forgotten are not in the answer."""

    async def counts(self, after: str, limit: int) -> list[UserCounts]:
        """Return what `users` does, with the numbers of rows that there are."""

    async def totals(self) -> Totals:
        """Return how many rows there are."""


class LogCopy(LogTables, Protocol):
    """The copy of a log. Each change is one durable commit."""

    async def put(self, piece: Piece) -> None:
        """Change what belongs to users."""

    async def drop_users(self, user_ids: Sequence[str]) -> None:
        """Delete all rows of users."""

    async def put_removals(self, gone: Sequence[int], new: Sequence[StoredRemoval]) -> None:
        """Delete removals by their sequences, and add others."""
