"""The rows that one commit writes, put together before any of them is written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from nomemory.server.log.damage import checksum
from nomemory.server.log.position import bucket_of
from nomemory.server.log.writing import Key, Store, Version
from nomemory.server.message import Message, stored_mark


class Words(NamedTuple):
    """A number of 64 bits for each text that a look-up finds a message by, and its tokens, which decide."""

    keys: Sequence[int]
    tokens: bytes


ReadWords = Callable[[Message], Words]
"""Reads a message. It depends on nothing else."""


def no_words(_message: Message) -> Words:
    """Return what no search finds."""
    return Words((), b"\0")


Row = tuple[object, ...]


@dataclass(slots=True)
class _Count:
    """By how much a user's messages become more, and the sequence of the latest change to them."""

    sequence: int
    messages: int


@dataclass(slots=True)
class Changes:
    """What a commit stores and removes. A version that comes and goes within it is never written.

    Attributes:
        read_words: reads what a row holds for search by words.
        sequence: the latest sequence that was given out; 0 before the first.
        latest: the latest sequence of each bucket that the commit may change.
    """

    read_words: ReadWords = no_words
    sequence: int = 0
    latest: dict[int, int] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=lambda: iter(()))
    _stores: dict[Key, tuple[Store, int]] = field(default_factory=dict)
    _dropped: set[Key] = field(default_factory=set)
    _removals: list[Row] = field(default_factory=list)
    _requests: list[Row] = field(default_factory=list)
    _counts: dict[str, _Count] = field(default_factory=dict)

    def may_change(self, latest: Mapping[int, int], numbers: Iterable[int]) -> None:
        """Take what the locks brought: the latest sequence of each bucket, and larger numbers, which ascend."""
        self.latest |= latest
        self._numbers = iter(numbers)

    def store(self, key: Key, store: Store) -> int:
        """Store a version; return its sequence."""
        self._stores[key] = store, self._next()
        return self.sequence

    def remove(self, versions: Mapping[Key, Version]) -> None:
        """Remove versions."""
        for key, version in versions.items():
            user_id, message_id = key
            self._removals.append((bucket_of(user_id), self._next(), user_id, message_id, version.sequence))
            if self._stores.pop(key, None) is None:
                self._dropped.add(key)

    def count(self, user_id: str, messages: int) -> None:
        """Note that a user has so many messages more, as of now. It is the latest change of the user's bucket, too."""
        counted = self._counts.setdefault(user_id, _Count(0, 0))
        counted.sequence = self.sequence
        counted.messages += messages
        self.latest[bucket_of(user_id)] = self.sequence

    def remember(self, requests: Iterable[tuple[str, bytes, bytes, int]]) -> None:
        """Keep what requests got."""
        self._requests += [(bucket_of(user), user, digest, first, size) for user, digest, first, size in requests]

    def dropped(self) -> list[list[object]]:
        """Return, as columns, the keys of stored rows that go."""
        return columns([(bucket_of(user), user, message) for user, message in sorted(self._dropped)], 3)

    def messages(self) -> list[Row]:
        """Return the rows of messages."""
        return [self._row(store, sequence) for store, sequence in self._stores.values()]

    def others(self) -> list[list[object]]:
        """Return, as columns, everything else: removals, entries of metadata, vectors, counts, requests."""
        stores = [store for store, _ in self._stores.values()]
        entries = [row for store in stores for row in _entries(store)]
        vectors = [row for store in stores for row in _vectors(store)]
        counts = [(bucket_of(user), user, one.sequence, one.messages) for user, one in sorted(self._counts.items())]
        return [
            *columns(self._removals, 5),
            *columns(entries, 5),
            *columns(vectors, 4),
            *columns(counts, 4),
            *columns(self._requests, 5),
        ]

    def _next(self) -> int:
        self.sequence = next(self._numbers)
        return self.sequence

    def _row(self, store: Store, sequence: int) -> Row:
        m = store.message
        words = self.read_words(m)
        return (
            bucket_of(m.user_id),
            m.user_id,
            m.ts_us,
            m.message_id,
            sequence,
            m.expire_us,
            checksum(m.user_id, sequence, store.wire),
            m.role.value,
            m.conversation_id,
            store.wire,
            words.keys,
            words.tokens,
        )


def columns(rows: Sequence[Row], width: int) -> list[list[object]]:
    """Return rows as columns, of which there are `width`."""
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(width)]


def _entries(store: Store) -> Iterable[Row]:
    m = store.message
    bucket = bucket_of(m.user_id)
    return ((bucket, m.user_id, stored_mark(entry), m.ts_us, m.message_id) for entry in m.metadata.items())


def _vectors(store: Store) -> Iterable[Row]:
    m = store.message
    if m.embedding is not None:
        yield bucket_of(m.user_id), m.user_id, m.message_id, m.embedding
