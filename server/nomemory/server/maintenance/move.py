"""Moves a log to another engine while nobody writes to it: copies its rows, compares, and hands over.

The log stays what it is: its name, its epoch, every sequence, every id. So write tokens, cursors and the indexes that
have followed it stay good. What was copied before a run ended stays, and is not copied again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final, NamedTuple, Protocol

from nomemory.server.log.damage import checksum
from nomemory.server.log.move import MESSAGES, SHRINKING, TABLES, LogCopy, LogTables, Row, Table
from nomemory.server.log.position import FeedPosition, LogPosition
from nomemory.server.vector.space import Filled

_PAGE: Final = 500
"""Rows that are read at once, and written in one commit."""

ALREADY: Final = "the log was moved from there already, and is not moved again"


class MigrationError(Exception):
    """A log cannot be moved from here to there; the text says why, and what to do."""


class Damaged(NamedTuple):
    """A message whose checksum does not hold."""

    user_id: str
    message_id: str
    sequence: int


class Sum(NamedTuple):
    """How many rows a table has, and a digest of them all, whatever their order."""

    rows: int = 0
    digest: int = 0

    def with_row(self, row: Row) -> Sum:
        """Return the sum of these rows and one more."""
        one = blake2b(repr(row).encode(), digest_size=16).digest()
        return Sum(self.rows + 1, (self.digest + int.from_bytes(one, "big")) % 2**128)


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
    damaged: list[Damaged] = field(default_factory=list)
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
    shared: Mapping[str, Filled]


class Source(Protocol):
    """A log that is to be moved. Nobody writes to it until the move is over."""

    @property
    def tables(self) -> LogTables:
        """Its rows."""

    @property
    def was_moved(self) -> bool:
        """Whether it was marked as moved before, for a copy that was not finished."""

    async def handed_over(self) -> HandOver:
        """Return what the target has to know."""

    async def mark_moved(self) -> None:
        """Mark it, durably, so that no server serves it any more."""


class Target(Protocol):
    """Where a log is moved to."""

    @property
    def copy(self) -> LogCopy:
        """The rows of the copy."""

    async def prepare(self) -> None:
        """Do what takes long and is left to do when all rows are there."""

    async def finish(self, given: HandOver) -> None:
        """Make the copy a log that servers start on."""


Tell = Callable[[int, int], None]
"""Called after each commit of messages with how many of them were read, and how many the log has."""


async def move(source: Source, target: Target, tell: Tell) -> Outcome:
    """Copy what the copy lacks, compare, and hand the log over. With damage or differences it stays where it is.

    A copy that differs is emptied, for the next run to begin anew.

    The source is marked before the target is finished: no server can start on both. A run that ends in between is
    completed by the next one.
    """
    outcome = Outcome(await source.tables.position())
    await _clear(target.copy, SHRINKING)
    for table in TABLES:
        outcome.sums[table.name] = await _copied(source.tables, target.copy, table, outcome.damaged, tell)
    if outcome.damaged:
        return outcome
    outcome.differences += [text async for text in _differences(target.copy, outcome.sums)]
    if outcome.differences:
        await _clear(target.copy, TABLES)
        return outcome
    await target.prepare()
    given = await source.handed_over()
    if not source.was_moved:
        await source.mark_moved()
    await target.finish(given)
    return outcome


async def _clear(copy: LogCopy, tables: Iterable[Table]) -> None:
    for table in tables:
        await copy.clear(table)


async def _copied(source: LogTables, copy: LogCopy, table: Table, damaged: list[Damaged], tell: Tell) -> Sum:
    """Copy a table; return the sum of what was read. Messages that are damaged are noted and left out."""
    total, found = await source.count(table), Sum()
    async for page in _pages(source, table):
        unsound = [row for row in page if table is MESSAGES and not _is_sound(row)]
        damaged += [Damaged(user_id, message_id, sequence) for user_id, _, message_id, sequence, *_ in unsound]
        await copy.add(table, [row for row in page if row not in unsound] if unsound else page)
        for row in page:
            found = found.with_row(row)
        if table is MESSAGES:
            tell(found.rows, total)
    return found


async def _differences(copy: LogTables, sums: Mapping[str, Sum]) -> AsyncIterator[str]:
    """Say in words which tables of a copy do not have exactly the rows that were read."""
    for table in TABLES:
        found, wanted = Sum(), sums[table.name]
        async for page in _pages(copy, table):
            for row in page:
                found = found.with_row(row)
        if found.rows != wanted.rows:
            yield f"{table.name}: {wanted.rows:,} in the source, {found.rows:,} in the copy"
        elif found != wanted:
            yield f"{table.name}: as many in both, but not the same"


async def _pages(tables: LogTables, table: Table) -> AsyncIterator[list[Row]]:
    last: Row | None = None
    while page := await tables.page(table, last, _PAGE):
        yield page
        last = page[-1]


def _is_sound(message: Row) -> bool:
    user_id, _, _, sequence, _, _, wire, _, wanted = message
    return checksum(user_id, sequence, wire) == int(wanted)
