"""A lexical index in a directory, with its writer and a reader, and short ways to fill and ask it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from nomemory.server.lexical.grammar import Limits, parse
from nomemory.server.lexical.protocol import LexicalHit, RankPosition
from nomemory.server.lexical.query import Query
from nomemory.server.lexical.tantivy_reader import TantivyLexicalIndex
from nomemory.server.lexical.tantivy_writer import TantivyLexicalWriter
from nomemory.server.message import EVERYTHING, Filter, Message, Role

LIMITS = Limits(chars=2000, terms=128, depth=16)
HEAP_BYTES = 15_000_000
LATEST = 1 << 62


def query(text: str) -> Query:
    """Parse with the limits that the server has by default."""
    return parse(text, LIMITS)


def message(
    user: str, content: str, ts_us: int = 0, role: Role = Role.USER, conversation: str = "", name: str = ""
) -> Message:
    """Make a message; its id does not matter to the index."""
    return Message(user, "m", ts_us, role, content, conversation_id=conversation, name=name)


class Shelf:
    """An index. Changes are numbered from 1, in the order in which they come; `messages` are by their number."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.writer = TantivyLexicalWriter(directory, HEAP_BYTES)
        self.reader = TantivyLexicalIndex(directory)
        self.messages: dict[int, Message] = {}
        self.sequence = 0

    def put(self, *messages: Message) -> None:
        """Add messages in one commit."""
        for each in messages:
            self.sequence += 1
            self.messages[self.sequence] = each
            self.writer.add(self.sequence, each)
        self._commit()

    def put_texts(self, user: str, *contents: str) -> None:
        """Add messages of which each is later than the one before."""
        self.put(*(message(user, text, self.sequence + place) for place, text in enumerate(contents)))

    def remove(self, *sequences: int) -> None:
        """Remove messages in one commit."""
        for sequence in sequences:
            self.sequence += 1
            del self.messages[sequence]
            self.writer.remove(sequence)
        self._commit()

    def find(self, user: str, text: str, narrowed: Filter = EVERYTHING) -> list[str]:
        """Return the contents that match, best first."""
        return [self.messages[hit.sequence].content for hit in self.hits(user, query(text), narrowed)]

    def hits(self, user: str, asked: Query, narrowed: Filter = EVERYTHING) -> list[LexicalHit]:
        """Return all hits, best first."""
        return self.page(user, asked, self.reader.weigh(user, asked), narrowed, None, 10_000)

    def page(
        self,
        user: str,
        asked: Query,
        weights: tuple[float, ...],
        narrowed: Filter = EVERYTHING,
        after: RankPosition | None = None,
        limit: int = 10,
    ) -> list[LexicalHit]:
        """Return one page."""
        return self.reader.search(user, asked, weights, narrowed, pinned=LATEST, after=after, limit=limit)

    def close(self) -> None:
        """Let go of both sides."""
        self.reader.close()
        self.writer.close()

    def _commit(self) -> None:
        self.writer.commit(self.sequence)
        self.reader.refresh()


@contextmanager
def shelved(directory: Path, texts: Iterable[str] = (), user: str = "u") -> Iterator[Shelf]:
    """Open a shelf with these messages of one user on it."""
    with closing(Shelf(directory)) as shelf:
        shelf.put_texts(user, *texts)
        yield shelf
