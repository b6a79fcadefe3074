"""A lexical index of some engine with helpers to fill and search it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from copy import copy
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

from lexical.engine import Engine

from nomemory.server import wire
from nomemory.server.message import LoggedMessage, Message, Role
from nomemory.server.message_filter import EVERYTHING, Filter
from nomemory.server.search.grammar.grammar import QueryLimits, parse_query
from nomemory.server.search.grammar.tree import Query
from nomemory.server.search.lexical.protocol import (
    FrozenRanking,
    LexicalHit,
    LexicalIndex,
    LexicalSearch,
    Posting,
    RankPosition,
)

LIMITS = QueryLimits(chars=2000, terms=128, depth=16)
LATEST = 1 << 62

T = TypeVar("T")


def query(text: str) -> Query:
    """Parse a query with the default limits of the server."""
    return parse_query(text, LIMITS)


def message(
    user: str,
    content: str,
    ts_us: int = 0,
    role: Role = Role.USER,
    conversation: str = "",
    name: str = "",
    metadata: Mapping[str, str] = MappingProxyType({}),
) -> Message:
    """Return a message; its id does not matter to the index."""
    return Message(user, "m", ts_us, role, content, conversation_id=conversation, name=name, metadata=metadata)


class Shelf:
    """A lexical index with a private event loop.

    Changes are numbered from 1 in their order; `messages` maps these numbers to messages.
    """

    def __init__(self, engine: Engine, directory: Path) -> None:
        self._loop = asyncio.new_event_loop()
        self._index = self.now(engine(directory))
        self._reader = self._index.reader
        self.messages: dict[int, Message] = {}
        self.sequence = 0

    def put(self, *messages: Message) -> None:
        """Add messages in one commit."""
        added = dict(enumerate(messages, self.sequence + 1))
        self.messages |= added
        self._apply(added, ())

    def put_texts(self, user: str, *contents: str) -> None:
        """Add messages with increasing times."""
        self.put(*(message(user, text, self.sequence + offset) for offset, text in enumerate(contents)))

    def remove(self, *sequences: int) -> None:
        """Remove messages in one commit."""
        for sequence in sequences:
            del self.messages[sequence]
        self._apply({}, sequences)

    def find(self, user: str, text: str, message_filter: Filter = EVERYTHING) -> list[str]:
        """Return the matching contents, best first."""
        return [self.messages[hit.sequence].content for hit in self.hits(user, query(text), message_filter)]

    def hits(self, user: str, parsed_query: Query, message_filter: Filter = EVERYTHING) -> list[LexicalHit]:
        """Return all hits, best first."""
        return self.page(
            user, parsed_query, self.freeze(user, parsed_query, message_filter), message_filter, None, 10_000
        )

    def page(
        self,
        user: str,
        parsed_query: Query,
        ranking: FrozenRanking,
        message_filter: Filter = EVERYTHING,
        start: RankPosition | None = None,
        limit: int = 10,
    ) -> list[LexicalHit]:
        """Return one page."""
        return self.now(self._reader.search(LexicalSearch(user, parsed_query, ranking, message_filter, start, limit)))

    def freeze(self, user: str, parsed_query: Query, message_filter: Filter = EVERYTHING) -> FrozenRanking:
        """Return the current ranking of a query."""
        return self.now(self._reader.freeze(user, parsed_query, message_filter))

    def weigh(self, user: str, parsed_query: Query) -> tuple[float, ...]:
        """Return the term weights of a query."""
        return self.freeze(user, parsed_query).weights

    @property
    def reader_index(self) -> LexicalIndex:
        """The reader of the index for asynchronous callers."""
        return self._reader

    def read_postings(self, user: str, terms: Sequence[str], message_filter: Filter, limit: int) -> list[Posting]:
        """Return the postings of terms."""
        return self.now(self._reader.read_postings(user, terms, message_filter, limit))

    @contextmanager
    def another_reader(self) -> Iterator[Shelf]:
        """Use the same index through a new reader."""
        other = copy(self)
        other._reader = self.now(self._index.another_reader())
        yield other
        self.now(other._reader.close())

    def close(self) -> None:
        """Close the index."""
        self.now(self._index.close())
        self._loop.close()

    def _apply(self, added: Mapping[int, Message], removed: Collection[int]) -> None:
        self.sequence += len(added) + len(removed)
        self.now(self._index.apply(added, removed, self.sequence))
        self.now(self._reader.refresh())

    def now(self, answer: Awaitable[T]) -> T:
        """Run an awaitable on the event loop of the shelf."""
        return self._loop.run_until_complete(answer)


@contextmanager
def shelved(engine: Engine, directory: Path, texts: Iterable[str] = (), user: str = "u") -> Iterator[Shelf]:
    """Open a shelf with messages of one user."""
    with closing(Shelf(engine, directory)) as shelf:
        shelf.put_texts(user, *texts)
        yield shelf


class ShelfLog:
    """The message log of a shelf. Versions in `deleted` are missing here but still in the index."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self.deleted: set[int] = set()

    async def read_versions(self, _user_id: str, sequences: Sequence[int]) -> dict[int, LoggedMessage]:
        present = [number for number in sequences if number in self._shelf.messages and number not in self.deleted]
        return {number: self._logged(number, self._shelf.messages[number]) for number in present}

    async def read_user_sequence(self, _user_id: str) -> int:
        return 0

    def _logged(self, number: int, each: Message) -> LoggedMessage:
        return LoggedMessage(each.user_id, f"m{number}", each.ts_us, number, wire.encode(each))
