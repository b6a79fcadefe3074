"""A file of vectors, by the text that was embedded: an index that is built anew does not wait for the model.

The vectors of the latest document texts, each distinct text embedded once.

Takes out of the file of kept vectors what is not of a living message's text.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final, Literal

from cachetools import LRUCache

from nomemory.server.embedding.protocol import Embedder, TextRefusedError
from nomemory.server.embedding.vector import Vector
from nomemory.server.embedding.wrappers import EmbedderWrapper
from nomemory.server.structured_logs import get_logger

Use = Literal["document", "query"]
"""The use of a text: models make different vectors of queries and documents."""


_REST_S = 2.0  # without a try, after one that had to wait in vain
_WAIT_S = 0.1  # for another process that writes: these calls run on the event loop
_OWNER_ONLY = 0o600
_SCHEMA = "CREATE TABLE IF NOT EXISTS vectors (digest BLOB PRIMARY KEY, vector BLOB NOT NULL)"
_log = get_logger("embedder")


class KeptVectorsError(OSError):
    """The file cannot be opened, or is something else. The text is for the operator."""


class KeptVectors:
    """The vectors of one model in a file, which models and processes may share.

    Texts are in the file only as digests (BLAKE2b, 256 bits), and its owner alone may read it: a vector says much of
    what its text says. What cannot be read or written is as if it were not kept.

    Args:
        path: the file; it is made, and its folder too.
        model: what makes the vectors: two that share a name have to make the same.
        size: bytes of a vector.

    Raises:
        KeptVectorsError: see there.
    """

    def __init__(self, path: Path, model: str, size: int) -> None:
        self._model = model
        self._size = size
        self._is_ill = False
        self._rests_until = 0.0
        self._file = opened(path)

    def get(self, text: str, use: Use) -> Vector | None:
        """Return the vector of a text, if it is kept."""
        try:
            query = "SELECT vector FROM vectors WHERE digest = ?"
            found = self._file.execute(query, (self._digest(text, use),)).fetchone()
        except sqlite3.Error as error:
            self._report(error)
            return None
        return found[0] if found and len(found[0]) == self._size else None

    def put(self, text: str, use: Use, vector: Vector) -> None:
        """Keep a vector. While another connection writes for long, as when the file is cleaned, none is kept."""
        if time.monotonic() < self._rests_until:
            return
        try:
            row = (self._digest(text, use), vector)
            self._file.execute("INSERT OR REPLACE INTO vectors VALUES (?, ?)", row)
        except sqlite3.Error as error:
            self._rests_until = time.monotonic() + _REST_S
            self._report(error)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _digest(self, text: str, use: Use) -> bytes:
        return digest_of(self._model, use, text)

    def _report(self, error: sqlite3.Error) -> None:
        """Log the failure once. The server goes on, only slower."""
        if not self._is_ill:
            _log.warning("the file of kept vectors does not work", cause=type(error).__name__)
        self._is_ill = True


def count(path: Path) -> int:
    """Return how many vectors a file holds; none if there is no file.

    Raises:
        KeptVectorsError: it is something else.
    """
    if not path.exists():
        return 0
    with closing(opened(path)) as file:
        return int(file.execute("SELECT COUNT(*) FROM vectors").fetchone()[0])


def model_of(embedder: Embedder) -> str:
    """Name what makes an embedder's vectors."""
    return f"{embedder.kind} {embedder.model} {embedder.dimension}"


def digest_of(model: str, use: Use, text: str) -> bytes:
    """Return what a text's vector is kept under."""
    return hashlib.blake2b(f"{model}\0{use}\0{text}".encode(), digest_size=32).digest()


def opened(path: Path) -> sqlite3.Connection:
    """Open a file of vectors; make it if need be.

    Raises:
        KeptVectorsError: see there.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, _OWNER_ONLY))
        file = sqlite3.connect(path, timeout=_WAIT_S, isolation_level=None)
    except (OSError, sqlite3.Error) as error:
        raise KeptVectorsError(f"cannot keep vectors in {path}: {error}") from None
    try:
        file.execute("PRAGMA journal_mode = WAL")
        file.execute("PRAGMA synchronous = NORMAL")  # what a power cut takes is embedded again
        file.execute(_SCHEMA)
    except sqlite3.Error as error:
        file.close()
        raise KeptVectorsError(f"cannot keep vectors in {path}: {error}") from None
    return file


class KeptEmbedder(EmbedderWrapper):
    """An `Embedder` with a file as its cache.

    Args:
        embedder: what embeds.
        kept: the vectors of the same model.
    """

    def __init__(self, embedder: Embedder, kept: KeptVectors) -> None:
        super().__init__(embedder)
        self._kept = kept

    async def embed_query(self, text: str) -> Vector:
        """Embed a query, unless its vector is in the file."""
        vector = self._kept.get(text, "query")
        if vector is None:
            vector = await self._within.embed_query(text)
            self._kept.put(text, "query", vector)
        return vector

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Embed those of the texts that are not kept. What is refused is not kept either."""
        found = {text: self._kept.get(text, "document") for text in texts}
        missing = [text for text in texts if found[text] is None]
        if missing:
            found.update(zip(missing, await self._embed(texts, missing), strict=True))
        return [vector for text in texts if (vector := found[text]) is not None]

    async def close(self) -> None:
        """Stop the model and close the file."""
        await self._within.close()
        self._kept.close()

    async def _embed(self, texts: Sequence[str], missing: Sequence[str]) -> list[Vector]:
        try:
            vectors = await self._within.embed_documents(missing)
        except TextRefusedError as refusal:
            raise TextRefusedError(texts.index(missing[refusal.position]), str(refusal)) from None
        for text, vector in zip(missing, vectors, strict=True):
            self._kept.put(text, "document", vector)
        return vectors


_KEPT_MIN = 1024


class DocumentVectors:
    """Embeds texts in calls of a fitting size, and keeps the results, so that work that is interrupted is not lost.

    Args:
        embedder: what embeds.
        call_max: most texts in one call of it.
        texts_max: most texts that are asked for at once; at least twice as many are kept.
    """

    def __init__(self, embedder: Embedder, call_max: int, texts_max: int) -> None:
        self._embedder = embedder
        self._call_max = call_max
        self._kept: LRUCache[str, Vector | None] = LRUCache(max(_KEPT_MIN, 2 * texts_max))
        self.embedded = 0

    async def embed(self, texts: Sequence[str], interrupted: Callable[[], bool]) -> bool:
        """Embed these texts; return False if it was interrupted between two calls.

        Raises:
            Fault: EMBEDDER_UNAVAILABLE; what was embedded before is kept.
        """
        missing = []
        for text in dict.fromkeys(texts):
            try:
                self._kept[text]  # to look one up makes it the latest
            except KeyError:
                missing.append(text)
        for at in range(0, len(missing), self._call_max):
            if at and interrupted():
                return False
            await self._call(missing[at : at + self._call_max])
        return True

    def vectors(self, texts: Sequence[str]) -> list[Vector] | None:
        """Return the vectors of texts that were just embedded, or None if the model refused one of them."""
        found = [self._kept[text] for text in texts]
        usable = [vector for vector in found if vector is not None]
        return usable if len(usable) == len(found) else None

    async def _call(self, texts: list[str]) -> None:
        """Embed texts together; one that is refused is noted and left out of the next try."""
        while texts:
            try:
                vectors = await self._embedder.embed_documents(texts)
            except TextRefusedError as refusal:
                self._kept[texts.pop(refusal.position)] = None
                continue
            self._kept.update(zip(texts, vectors, strict=True))
            self.embedded += len(texts)
            return


_ROWS_MAX: Final = 1000
"""Vectors that are looked at in one statement: others write in between."""


class _StoppedError(Exception):
    """The server stops."""


class CacheErasure:
    """Drops all vectors but those of living texts: of what is gone there is nothing to know its vectors by.

    So the vectors of queries go, too, and those of other models and other data directories. They are made again when
    they are needed. Vectors that come into the file meanwhile stay.

    Args:
        path: the file.
        model: what made its vectors.
        texts: gives the texts that living messages are embedded by, some at a time. Called in a thread of its own.
    """

    def __init__(self, path: Path, model: str, texts: Callable[[], Iterable[Sequence[str]]]) -> None:
        self._path = path
        self._model = model
        self._texts = texts
        self._stopping = threading.Event()

    async def wipe_removed(self) -> None:
        """Do it, in small pieces, and give the space back.

        Raises:
            KeptVectorsError: the file cannot be written.
        """
        if self._path.exists():
            await asyncio.to_thread(self._run)

    def stop(self) -> None:
        """Let a wipe that is under way end. What it did stays done."""
        self._stopping.set()

    def _run(self) -> None:
        try:
            with closing(opened(self._path)) as file:
                file.execute("PRAGMA secure_delete = ON")
                file.execute("CREATE TEMP TABLE living (digest BLOB PRIMARY KEY) WITHOUT ROWID")
                (last,) = file.execute("SELECT ifnull(max(rowid), 0) FROM vectors").fetchone()
                self._note_living(file)
                if self._drop(file, last):
                    file.execute("VACUUM")  # what moved from page to page left copies
                file.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except sqlite3.Error as error:
            raise KeptVectorsError(f"the file of kept vectors cannot be cleaned: {error}") from error
        except _StoppedError:
            return

    def _note_living(self, file: sqlite3.Connection) -> None:
        began_at = time.monotonic()
        for texts in self._texts():
            digests = [(digest_of(self._model, "document", text),) for text in texts]
            file.executemany("INSERT OR IGNORE INTO temp.living VALUES (?)", digests)
            self._rest(began_at)
            began_at = time.monotonic()

    def _drop(self, file: sqlite3.Connection, last: int) -> int:
        """Drop what is not living, up to a row; return how many."""
        dropped = 0
        for after in range(0, last, _ROWS_MAX):
            began_at = time.monotonic()
            dropped += file.execute(
                "DELETE FROM vectors WHERE rowid > ? AND rowid <= ? AND digest NOT IN (SELECT digest FROM temp.living)",
                (after, min(last, after + _ROWS_MAX)),
            ).rowcount
            self._rest(began_at)
        return dropped

    def _rest(self, began_at: float) -> None:
        """Pause as long as the work took."""
        if self._stopping.wait(time.monotonic() - began_at):
            raise _StoppedError
