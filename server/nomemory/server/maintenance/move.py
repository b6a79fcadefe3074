"""Moves a log to another engine while nobody writes to it: copies its rows, compares, and hands over.

The log stays what it is: its name, its epoch, every sequence, every id. So write tokens, cursors and the indexes that
have followed it stay good. What was copied before a run ended stays, and is not copied again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final, NamedTuple, Protocol

from nomemory.server.data_directory import DataDirectory
from nomemory.server.log.damage import checksum
from nomemory.server.log.feed import Touched
from nomemory.server.log.move import Condition
from nomemory.server.log.position import FeedPosition, LogPosition
from nomemory.server.log.tables import MESSAGES, REMOVALS, REQUESTS, TABLES, USERS, Row, Table
from nomemory.server.vector.index_progress import IndexCheckpoint

_PAGE: Final = 500
"""Rows that are read at once, and written in one commit."""

ALREADY: Final = "the log was moved from there already, and is not moved again"


class MigrationError(Exception):
    """A log cannot be moved from here to there; the text says why, and what to do."""


class Sum(NamedTuple):
    """How many rows a table has, and a digest of them all, whatever their order."""

    rows: int = 0
    digest: int = 0

    def with_rows(self, rows: Sequence[Row]) -> Sum:
        """Return the sum of these rows and more."""
        digests = (blake2b(repr(row).encode(), digest_size=16).digest() for row in rows)
        total = sum((int.from_bytes(digest, "big") for digest in digests), self.digest)
        return Sum(self.rows + len(rows), total % 2**128)


@dataclass(slots=True)
class Outcome:
    """What a run did.

    Attributes:
        position: the log, and the sequence of its latest change.
        sums: what was read of each table of the log, by its name.
        damaged: the messages that could not be copied. The log is handed over only if there are none.
        differences: in words, what of the copy is not as it was read. It is handed over only if there are none.
    """

    position: LogPosition
    sums: dict[str, Sum] = field(default_factory=dict)
    damaged: list[Touched] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)

    @property
    def is_sound(self) -> bool:
        """Whether the log was handed over."""
        return not self.damaged and not self.differences


@dataclass(frozen=True, slots=True)
class HandOver:
    """What is no row of a log.

    Attributes:
        position: which log it is, and the sequence of its latest change.
        last_id: the number of the last id that it made; 0: it made none.
        reached: the sequence of the latest change of each bucket.
        shared: what it knows of indexes that several servers fill.
    """

    position: LogPosition
    last_id: int
    reached: FeedPosition
    shared: Mapping[str, IndexCheckpoint]


class LogPlace(Protocol):
    """Where a log is moved from or to. Nobody writes to it until the move is over. Each change is a durable commit."""

    async def position(self) -> LogPosition:
        """Return which log it is, and the sequence of its latest change. A copy has the position of what it is of."""

    async def count(self, table: Table) -> int:
        """Return how many rows a table has."""

    async def page(self, table: Table, after: Row | None, limit: int) -> list[Row]:
        """Return up to `limit` rows that come after a row, or the first ones, in an order of the engine's.

        All rows are read, expired ones, too. What is returned is not checked.
        """

    async def handed_over(self) -> HandOver:
        """Return what the target has to know of this log."""

    async def mark_moved(self) -> None:
        """Mark it so that no server serves it any more, if it is not marked yet."""

    async def add(self, table: Table, rows: Sequence[Row]) -> None:
        """Add rows to a copy."""

    async def clear(self, *tables: Table) -> None:
        """Delete all rows of some tables of a copy."""

    async def prepare(self) -> None:
        """Do what takes long and is left to do when all rows of a copy are there."""

    async def finish(self, given: HandOver) -> None:
        """Make a copy a log that servers start on."""


Tell = Callable[[int, int], None]
"""Called after each commit of messages with how many of them were read, and how many the log has."""


def refuse(condition: Condition, texts: Mapping[Condition, str], directory: DataDirectory) -> None:
    """Raise MigrationError if there is a text that says why a log in this condition is of no use."""
    if condition in texts:
        raise MigrationError(texts[condition].format(root=directory.root, log=directory.log))


async def move(source: LogPlace, target: LogPlace, tell: Tell) -> Outcome:
    """Copy what the copy lacks, compare, and hand the log over. With damage or differences it stays where it is.

    A copy that differs is emptied, for the next run to begin anew.

    The source is marked before the target is finished: no server can start on both. A run that ends in between is
    completed by the next one.
    """
    outcome = Outcome(await source.position())
    await target.clear(USERS, REQUESTS, REMOVALS)  # of which rows can go without a change of the log's sequence
    for table in TABLES:
        outcome.sums[table.name] = await _copied(source, target, table, outcome.damaged, tell)
    if outcome.damaged:
        return outcome
    outcome.differences += [text async for text in _differences(target, outcome.sums)]
    if outcome.differences:
        await target.clear(*TABLES)
        return outcome
    await target.prepare()
    given = await source.handed_over()
    await source.mark_moved()
    await target.finish(given)
    return outcome


async def _copied(source: LogPlace, target: LogPlace, table: Table, damaged: list[Touched], tell: Tell) -> Sum:
    """Copy a table; return the sum of what was read. Messages that are damaged are noted and left out.

    Rows come in the same order in every run: as many as the copy has are those that it has.
    """
    total, found, present = await source.count(table), Sum(), await target.count(table)
    async for page in _pages(source, table):
        unsound = [row for row in page if table is MESSAGES and not _is_sound(row)]
        damaged += [Touched(sequence, user_id, message_id) for user_id, _, message_id, sequence, *_ in unsound]
        sound = [row for row in page if row not in unsound] if unsound else page
        await target.add(table, sound[present:])
        present = max(0, present - len(sound))
        found = found.with_rows(page)
        if table is MESSAGES:
            tell(found.rows, total)
    return found


async def _differences(copy: LogPlace, sums: Mapping[str, Sum]) -> AsyncIterator[str]:
    """Say in words which tables of a copy do not have exactly the rows that were read."""
    for table in TABLES:
        found, wanted = Sum(), sums[table.name]
        async for page in _pages(copy, table):
            found = found.with_rows(page)
        if found.rows != wanted.rows:
            yield f"{table.name}: {wanted.rows:,} in the source, {found.rows:,} in the copy"
        elif found != wanted:
            yield f"{table.name}: as many in both, but not the same"


async def _pages(place: LogPlace, table: Table) -> AsyncIterator[list[Row]]:
    last: Row | None = None
    while page := await place.page(table, last, _PAGE):
        yield page
        last = page[-1]


def _is_sound(message: Row) -> bool:
    user_id, _, _, sequence, _, _, wire, _, wanted = message
    return checksum(user_id, sequence, wire) == int(wanted)
