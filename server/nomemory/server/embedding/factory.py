"""Makes the embedder of the settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final, NoReturn

from nomemory.server.embedding.local import HOW_TO_GET_AN_EMBEDDER, LocalEmbedder, cache_directory, documents_at_once
from nomemory.server.embedding.local_model import (
    PACKAGE_DIMENSION,
    LocalModel,
    LocalModelError,
    directory_model,
    local_is_available,
    package_model,
)
from nomemory.server.embedding.protocol import Embedder
from nomemory.server.embedding.vector import Vector
from nomemory.server.embedding.wrappers import CachedEmbedder, MeteredEmbedder
from nomemory.server.faults import Fault, Reason
from nomemory.server.runtime.extension_point import ExtensionError, ExtensionPoint
from nomemory.server.runtime.metrics.meters import Meters
from nomemory.server.runtime.processes.watchdog import WatchPolicy
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.startup_errors import CannotStartError, need_extra


class NoEmbedder:
    """Implements `Embedder`; refuses every text with EMBEDDER_DISABLED.

    Args:
        dimension: how many numbers the callers' vectors have.
    """

    kind = "none"
    model = "none"

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension

    async def embed_query(self, text: str) -> Vector:
        """Refuse."""
        self._refuse(text)

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Refuse."""
        self._refuse(texts)

    async def close(self) -> None:
        """Do nothing."""

    def _refuse(self, _: object) -> NoReturn:
        raise Fault(
            Reason.ERROR_REASON_EMBEDDER_DISABLED,
            "this server has no embedder: send query_embedding, or set NOMEMORY_EMBEDDER",
        )


EmbedderFactory = Callable[[Settings], Embedder]

_CALLERS_DIMENSION = PACKAGE_DIMENSION
"""Default dimension of callers' own vectors: that of the local model, which may be added later."""


class EmbedderSettingsError(CannotStartError):
    """The settings do not describe an embedder; the text says what to set."""


def choose_embedder(
    settings: Settings,
    policy: WatchPolicy | None = None,
    around: Callable[[Embedder], Embedder] = lambda within: within,
    meters: Meters | None = None,
) -> Embedder:
    """Make the embedder, with a memory for queries. Nothing is sent yet.

    `auto` is `local` where its package is installed or the settings name a model for it, else `none`.

    Args:
        settings: which.
        policy: how processes of its own are watched.
        around: wraps the model, beneath the cache.
        meters: count what it does.

    Raises:
        EmbedderSettingsError: there is no such embedder, or a setting is missing or contradicts the model.
        ExtraMissingError: what the embedder needs is not installed.
    """
    meters = meters or Meters()
    model = around(MeteredEmbedder(_embedder(settings, policy), meters))
    return CachedEmbedder(model, settings.embedder.cache_size)


def _embedder(settings: Settings, policy: WatchPolicy | None) -> Embedder:
    if settings.embedder.kind in _BUILT_IN:
        return _BUILT_IN[settings.embedder.kind](settings, policy)
    try:
        make = EMBEDDERS.load(settings.embedder.kind)
    except ExtensionError as error:
        raise EmbedderSettingsError(f"NOMEMORY_EMBEDDER: {error}") from None
    return make(settings)


def _auto(settings: Settings, policy: WatchPolicy | None) -> Embedder:
    if settings.embedder.model_dir is None and not local_is_available():
        return _none(settings, policy)
    return local_embedder(settings, policy)


def local_embedder(settings: Settings, policy: WatchPolicy | None = None) -> LocalEmbedder:
    """Make the local embedder of the settings.

    Raises:
        EmbedderSettingsError: its package is not installed, or its model cannot be used.
    """
    model = local_model(settings)
    if settings.embedder.dimension not in (0, model.dimension):
        raise EmbedderSettingsError(f"the local embedder's vectors have {model.dimension} numbers: unset the dimension")
    at_once = documents_at_once()
    return LocalEmbedder(settings.embedder.timeout_s, model, settings.embedder.threads, policy, at_once)


def local_model(settings: Settings) -> LocalModel:
    """Return the model of the local embedder.

    Raises:
        EmbedderSettingsError: see there.
    """
    if settings.embedder.model_dir is None:
        if not local_is_available():
            raise EmbedderSettingsError(HOW_TO_GET_AN_EMBEDDER)
        return package_model(models_directory(settings))
    prefixes = settings.embedder.query_prefix, settings.embedder.document_prefix
    try:
        return directory_model(settings.embedder.model_dir.resolve(), *prefixes, settings.embedder.pooling)
    except LocalModelError as error:
        raise EmbedderSettingsError(f"NOMEMORY_EMBEDDING_MODEL_DIR: {error}") from None


def models_directory(settings: Settings) -> Path:
    """Return where models are kept."""
    return settings.embedder.model_cache_dir or cache_directory()


def _none(settings: Settings, _policy: WatchPolicy | None) -> NoEmbedder:
    return NoEmbedder(settings.embedder.dimension or _CALLERS_DIMENSION)


def _openai(settings: Settings, _policy: WatchPolicy | None) -> Embedder:
    """Import the client only where there is an endpoint: it takes half a second."""
    need_extra("openai", ("openai",), "NOMEMORY_EMBEDDER=openai")
    from nomemory.server.embedding.openai_compatible import OpenAICompatibleEmbedder, connect  # noqa: PLC0415

    if not settings.embedder.model or not settings.embedder.dimension:
        raise EmbedderSettingsError("`openai` needs NOMEMORY_EMBEDDING_MODEL and NOMEMORY_EMBEDDING_DIMENSION")
    key = settings.openai.api_key
    client = connect(settings.openai.base_url, key.get_secret_value() if key else None, settings.embedder.timeout_s)
    return OpenAICompatibleEmbedder(
        client, settings.embedder.model, settings.embedder.dimension, settings.embedder.batch_size
    )


_BUILT_IN: Final[Mapping[str, Callable[[Settings, WatchPolicy | None], Embedder]]] = MappingProxyType(
    {"auto": _auto, "local": local_embedder, "openai": _openai, "none": _none}
)

EMBEDDERS: Final[ExtensionPoint[EmbedderFactory]] = ExtensionPoint("nomemory.embedders", tuple(_BUILT_IN))
"""Embedders of other packages. An entry point names what makes the embedder of the settings."""
