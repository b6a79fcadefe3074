"""Says what a copy of a log has, and whether anything of it is not as it is in the log. Nobody writes meanwhile."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from nomemory.server.log.move import LogTables, Totals, UserCounts
from nomemory.server.log.protocol import LogReader
from nomemory.server.message import EVERYTHING

_PAGE: Final = 1_000
_SAMPLES_MAX: Final = 200
"""Users of whom a page is read from both."""
_PAGE_OF_MESSAGES: Final = 100
_NAMED_MAX: Final = 20
"""Differences that are told."""


@dataclass(frozen=True, slots=True)
class Sameness:
    """What was compared, and in words what differs. `read` are messages of `sampled` users that were read from both."""

    totals: Totals
    sequence: int
    sampled: int
    read: int
    differences: tuple[str, ...]


class Comparison:
    """Compares a log with its copy.

    Args:
        source: the rows of the log.
        copy: those of the copy.
        readers: what a server would read both through, with one clock.
    """

    def __init__(self, source: LogTables, copy: LogTables, readers: tuple[LogReader, LogReader]) -> None:
        self._source = source
        self._copy = copy
        self._readers = readers
        self._differences = list[str]()
        self._read = 0

    async def run(self, sequence: int) -> Sameness:
        """Compare the totals, all users, and pages of some of them.

        Args:
            sequence: the log's latest, which is no row.
        """
        totals = await self._compare_totals()
        every = max(1, totals.users // _SAMPLES_MAX)
        sampled, place = 0, 0
        async for theirs, ours in _pages(self._source, self._copy):
            self._differences += _differing_users(theirs, ours)
            for state in theirs[-place % every :: every]:
                await self._compare_page(state.state.user_id)
                sampled += 1
            place += len(theirs)
        told = self._differences[:_NAMED_MAX]
        if more := len(self._differences) - len(told):
            told.append(f"{more:,} more")
        return Sameness(totals, sequence, sampled, self._read, tuple(told))

    async def _compare_totals(self) -> Totals:
        theirs, ours = await self._source.totals(), await self._copy.totals()
        for name, wanted, found in zip(Totals._fields, theirs, ours, strict=True):
            if wanted != found:
                self._differences.append(f"{name}: {wanted:,} in the source, {found:,} in the copy")
        return theirs

    async def _compare_page(self, user_id: str) -> None:
        pages = [await reader.first_wires(user_id, EVERYTHING, limit=_PAGE_OF_MESSAGES) for reader in self._readers]
        self._read += len(pages[0].wires)
        if pages[0].wires != pages[1].wires:
            self._differences.append(f"the first page of user {user_id}")


async def _pages(
    source: LogTables, copy: LogTables
) -> AsyncIterator[tuple[Sequence[UserCounts], Sequence[UserCounts]]]:
    """Return the users of both by pages. From the first page on which their ids differ, nothing fits together."""
    after = ""
    while True:
        theirs, ours = await source.counts(after, _PAGE), await copy.counts(after, _PAGE)
        if theirs or ours:
            yield theirs, ours
        if not theirs or [one.state.user_id for one in theirs] != [one.state.user_id for one in ours]:
            return
        after = theirs[-1].state.user_id


def _differing_users(theirs: Sequence[UserCounts], ours: Sequence[UserCounts]) -> Iterator[str]:
    ours_by_id = {one.state.user_id: one for one in ours}
    for one in theirs:
        found = ours_by_id.pop(one.state.user_id, None)
        if found != one:
            yield f"user {one.state.user_id}: {_said(one)} in the source, {_said(found)} in the copy"
        elif one.state.messages != one.messages:
            yield f"user {one.state.user_id} is said to have {one.state.messages:,} messages, and has {one.messages:,}"
    yield from (f"user {user} is in the copy only" for user in ours_by_id)


def _said(counts: UserCounts | None) -> str:
    if counts is None:
        return "nothing"
    return (
        f"{counts.messages:,} messages up to change {counts.state.latest_sequence:,} ({counts.vectors:,} vectors, "
        f"{counts.entries:,} entries of metadata, {counts.state.requests:,} requests)"
    )
