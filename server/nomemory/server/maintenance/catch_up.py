"""Makes the copy of a log what the log is: user by user, wherever the two differ.

What was copied before is not copied again, however the run before ended: what is left to do is in what differs.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

from nomemory.server.log.damage import checksum
from nomemory.server.log.feed import StoredVersion
from nomemory.server.log.move import LogCopy, LogTables, Piece, StoredMessage, UserState, VersionKey

T = TypeVar("T")

_PAGE: Final = 1_000
"""Users who are compared at once."""
_USERS_MAX: Final = 500
_MESSAGES_MAX: Final = 2_000
"""Users, and about how many messages of theirs, that are looked at together."""
_ROWS_MAX: Final = 1_000
_BYTES_MAX: Final = 8_000_000
"""Messages, and bytes of them, in one commit."""


class Damaged(NamedTuple):
    """A message whose checksum does not hold."""

    user_id: str
    message_id: str
    sequence: int


@dataclass(slots=True)
class Pass:
    """What one run through all users did. `users` were not the same; `messages` came and `gone` went."""

    users: int = 0
    messages: int = 0
    gone: int = 0
    damaged: list[Damaged] = field(default_factory=list)

    @property
    def changes(self) -> int:
        """How much there was to do."""
        return self.users + self.messages + self.gone


class CatchUp:
    """Goes through all users once.

    A user's state is read before the user's rows. If these are newer, the states differ the next time.

    Args:
        source: the log. A server may be writing to it.
        copy: what becomes like it.
        tell: called after each commit with what was done so far.
    """

    def __init__(self, source: LogTables, copy: LogCopy, tell: Callable[[Pass], None]) -> None:
        self._source = source
        self._copy = copy
        self._tell = tell
        self._done = Pass()

    async def run(self) -> Pass:
        """Copy what differs; return what that was."""
        gone, batch, messages = list[str](), list[UserState](), 0
        async for theirs, user_id in _differing(_users(self._source), _users(self._copy)):
            if theirs is None:
                gone.append(user_id)
                continue
            batch.append(theirs)
            messages += theirs.messages
            if len(batch) == _USERS_MAX or messages >= _MESSAGES_MAX:
                await self._copy_users(batch)
                batch, messages = [], 0
        if batch:
            await self._copy_users(batch)
        await self._drop_users(gone)
        await self._copy_removals()
        return self._done

    async def _drop_users(self, user_ids: Sequence[str]) -> None:
        for some in batched(user_ids, _USERS_MAX):
            await self._copy.drop_users(some)
            self._done.users += len(some)

    async def _copy_users(self, states: Sequence[UserState]) -> None:
        user_ids = [state.user_id for state in states]
        wanted, present = await self._source.versions(user_ids), await self._copy.versions(user_ids)
        gone = [(user, one.message_id) for user in user_ids for one in _without(present[user], wanted[user])]
        for some in batched(gone, _ROWS_MAX):
            await self._put(Piece(begun=user_ids, gone=some))
        missing = [(user, one) for user in user_ids for one in _without(wanted[user], present[user])]
        damaged = set[str]()
        for keys in _in_commits(missing):
            rows, unsound = _sifted(await self._source.messages(keys))
            damaged |= {one.user_id for one in unsound}
            self._done.damaged += unsound
            await self._put(Piece(begun=user_ids, messages=rows))
        await self._settle([state for state in states if state.user_id not in damaged])
        self._done.users += len(states)

    async def _settle(self, states: Sequence[UserState]) -> None:
        """Note that some users are complete, with what is remembered of their requests."""
        user_ids = [state.user_id for state in states]
        theirs, ours = set(await self._source.requests(user_ids)), set(await self._copy.requests(user_ids))
        await self._put(Piece(forgotten=sorted(ours - theirs), requests=sorted(theirs - ours), settled=states))

    async def _put(self, piece: Piece) -> None:
        await self._copy.put(piece)
        self._done.messages += len(piece.messages)
        self._done.gone += len(piece.gone)
        self._tell(self._done)

    async def _copy_removals(self) -> None:
        theirs, ours = set(await self._source.removal_sequences()), set(await self._copy.removal_sequences())
        for gone in batched(sorted(ours - theirs), _ROWS_MAX):
            await self._copy.put_removals(gone, ())
        for new in batched(sorted(theirs - ours), _ROWS_MAX):
            await self._copy.put_removals((), await self._source.removals(new))


def batched(some: Sequence[T], most: int) -> Iterator[Sequence[T]]:
    """Return the items in their order, so many at once."""
    return (some[at : at + most] for at in range(0, len(some), most))


async def _users(tables: LogTables) -> AsyncIterator[UserState]:
    after = ""
    while page := await tables.users(after, _PAGE):
        for state in page:
            yield state
        after = page[-1].user_id


async def _differing(
    theirs: AsyncIterator[UserState], ours: AsyncIterator[UserState]
) -> AsyncIterator[tuple[UserState | None, str]]:
    """Return the users whose states differ: theirs, None where only the copy has the user; and the user's id."""
    left, right = await anext(theirs, None), await anext(ours, None)
    while left or right:
        user_id = min(state.user_id for state in (left, right) if state)
        wanted = left if left and left.user_id == user_id else None
        found = right if right and right.user_id == user_id else None
        if wanted != found:
            yield wanted, user_id
        left = await anext(theirs, None) if wanted else left
        right = await anext(ours, None) if found else right


def _without(some: Iterable[StoredVersion], others: Iterable[StoredVersion]) -> Iterator[StoredVersion]:
    sequences = {one.sequence for one in others}
    return (one for one in some if one.sequence not in sequences)


def _in_commits(missing: Iterable[tuple[str, StoredVersion]]) -> Iterator[list[VersionKey]]:
    """Return the versions in their order, as many at once as one commit may have."""
    some, size = list[VersionKey](), 0
    for user_id, version in missing:
        if some and (len(some) == _ROWS_MAX or size + version.size > _BYTES_MAX):
            yield some
            some, size = [], 0
        some.append((user_id, version.sequence))
        size += version.size
    if some:
        yield some


def _sifted(rows: Iterable[StoredMessage]) -> tuple[list[StoredMessage], list[Damaged]]:
    """Return the rows that are sound, and apart from them what is damaged."""
    sound, damaged = list[StoredMessage](), list[Damaged]()
    for row in rows:
        if checksum(row.user_id, row.sequence, row.wire) == row.checksum:
            sound.append(row)
        else:
            damaged.append(Damaged(row.user_id, row.message_id, row.sequence))
    return sound, damaged
