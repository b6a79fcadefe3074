"""The engines for the contract tests of the lexical index; `ENGINES` lists them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from pathlib import Path
from typing import Final, Protocol

from nomemory.server.message import Message
from nomemory.server.runtime.read_threads import ReadThreads
from nomemory.server.search.lexical.protocol import LexicalIndex
from nomemory.server.search.lexical.tantivy.reader import TantivyLexicalIndex
from nomemory.server.search.lexical.tantivy.writer import TantivyLexicalWriter

HEAP_BYTES: Final = 15_000_000


class OpenIndex(Protocol):
    """A writable index."""

    @property
    def reader(self) -> LexicalIndex:
        """A reader of the index."""

    async def apply(self, added: Mapping[int, Message], removed: Collection[int], applied: int) -> None:
        """Add and remove versions by sequence; afterwards the index covers the changes up to `applied`."""

    async def another_reader(self) -> LexicalIndex:
        """Open another reader."""

    async def close(self) -> None:
        """Let go of the index and of `reader`."""


Engine = Callable[[Path], Awaitable[OpenIndex]]
"""Opens the index that belongs to a directory, a new one at first. The engine need not keep it there."""


class OpenTantivyIndex:
    """An index of Tantivy, with its writer and a reader."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.writer = TantivyLexicalWriter(directory, HEAP_BYTES)
        self.threads = ReadThreads(2)
        self.reader = TantivyLexicalIndex(directory, self.threads)

    async def apply(self, added: Mapping[int, Message], removed: Collection[int], applied: int) -> None:
        """Add and remove versions in one commit."""
        for sequence, message in added.items():
            self.writer.add_version(sequence, message)
        for sequence in removed:
            self.writer.remove_version(sequence)
        self.writer.commit(applied)

    async def another_reader(self) -> TantivyLexicalIndex:
        """Open a further reader."""
        return TantivyLexicalIndex(self.directory, self.threads)

    async def close(self) -> None:
        """Let go of both sides."""
        await self.reader.close()
        await self.threads.close()
        self.writer.close()


async def open_tantivy_index(directory: Path) -> OpenTantivyIndex:
    """Open an index of Tantivy."""
    return OpenTantivyIndex(directory)


ENGINES: Final = ("tantivy", "postgres")
