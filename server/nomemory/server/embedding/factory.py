"""Creation of the configured embedder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final, NoReturn

from nomemory.server.embedding.local import (
    EMBEDDER_HINT,
    LocalEmbedder,
    compute_document_concurrency,
    get_cache_directory,
)
from nomemory.server.embedding.local_model import (
    PACKAGE_DIMENSION,
    LocalModel,
    LocalModelError,
    create_directory_model,
    create_package_model,
    is_local_model_available,
)
from nomemory.server.embedding.protocol import Embedder
from nomemory.server.embedding.vector import Vector
from nomemory.server.embedding.wrappers import CachedEmbedder, MeteredEmbedder
from nomemory.server.faults import Fault, Reason
from nomemory.server.runtime.extension_point import ExtensionError, ExtensionPoint
from nomemory.server.runtime.metrics.meters import Meters
from nomemory.server.runtime.processes.watchdog import WatchPolicy
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.startup_errors import StartupError, require_extra


class DisabledEmbedder:
    """An `Embedder` that rejects every text with EMBEDDER_DISABLED.

    Args:
        dimension: the dimension of the vectors that callers send.
    """

    kind = "none"
    model = "none"

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension

    async def embed_query(self, text: str) -> Vector:
        """Raise EMBEDDER_DISABLED."""
        self._raise_disabled(text)

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Raise EMBEDDER_DISABLED."""
        self._raise_disabled(texts)

    async def close(self) -> None:
        """Do nothing."""

    def _raise_disabled(self, _: object) -> NoReturn:
        raise Fault(
            Reason.ERROR_REASON_EMBEDDER_DISABLED,
            "the server has no embedder: send `query_embedding`, or configure NOMEMORY_EMBEDDER",
        )


EmbedderFactory = Callable[[Settings], Embedder]

_CALLERS_DIMENSION = PACKAGE_DIMENSION
"""Default dimension of vectors sent by callers. It equals that of the local model, which may be enabled later."""


class EmbedderSettingsError(StartupError):
    """The embedder settings are invalid or incomplete."""


def choose_embedder(
    settings: Settings,
    policy: WatchPolicy | None = None,
    wrap: Callable[[Embedder], Embedder] = lambda embedder: embedder,
    meters: Meters | None = None,
) -> Embedder:
    """Create the configured embedder with a query cache, without opening connections.

    `wrap` is applied to the embedder before the cache is added. `policy` is the watchdog policy of embedder processes.

    The kind `auto` selects `local` if its packages are installed or a custom model is configured, and otherwise `none`.

    Raises:
        EmbedderSettingsError: the embedder is unknown, or its settings are invalid or incomplete.
        ExtraMissingError: a package that the embedder requires is not installed.
    """
    meters = meters or Meters()
    model = wrap(MeteredEmbedder(_create_embedder(settings, policy), meters))
    return CachedEmbedder(model, settings.embedder.cache_size)


def _create_embedder(settings: Settings, policy: WatchPolicy | None) -> Embedder:
    if settings.embedder.kind in _BUILT_IN:
        return _BUILT_IN[settings.embedder.kind](settings, policy)
    try:
        make = EMBEDDERS.load(settings.embedder.kind)
    except ExtensionError as error:
        raise EmbedderSettingsError(f"NOMEMORY_EMBEDDER: {error}") from None
    return make(settings)


def _create_default_embedder(settings: Settings, policy: WatchPolicy | None) -> Embedder:
    if settings.embedder.model_dir is None and not is_local_model_available():
        return _create_disabled_embedder(settings, policy)
    return create_local_embedder(settings, policy)


def create_local_embedder(settings: Settings, policy: WatchPolicy | None = None) -> LocalEmbedder:
    """Create the local embedder.

    Raises:
        EmbedderSettingsError: the packages of the local embedder are not installed, or its model cannot be used.
    """
    model = create_local_model(settings)
    if settings.embedder.dimension not in (0, model.dimension):
        raise EmbedderSettingsError(
            f"NOMEMORY_EMBEDDING_DIMENSION is {settings.embedder.dimension}, but the local model has {model.dimension} "
            "dimensions: unset it"
        )
    concurrent_batches = compute_document_concurrency()
    return LocalEmbedder(settings.embedder.timeout_s, model, settings.embedder.threads, policy, concurrent_batches)


def create_local_model(settings: Settings) -> LocalModel:
    """Return the model that the local embedder is configured to run.

    Raises:
        EmbedderSettingsError: the packages of the local embedder are not installed, or its model cannot be used.
    """
    if settings.embedder.model_dir is None:
        if not is_local_model_available():
            raise EmbedderSettingsError(EMBEDDER_HINT)
        return create_package_model(get_models_directory(settings))
    prefixes = settings.embedder.query_prefix, settings.embedder.document_prefix
    try:
        return create_directory_model(settings.embedder.model_dir.resolve(), *prefixes, settings.embedder.pooling)
    except LocalModelError as error:
        raise EmbedderSettingsError(f"NOMEMORY_EMBEDDING_MODEL_DIR: {error}") from None


def get_models_directory(settings: Settings) -> Path:
    """Return the directory in which converted models are stored."""
    return settings.embedder.model_cache_dir or get_cache_directory()


def _create_disabled_embedder(settings: Settings, _policy: WatchPolicy | None) -> DisabledEmbedder:
    return DisabledEmbedder(settings.embedder.dimension or _CALLERS_DIMENSION)


def _create_openai_embedder(settings: Settings, _policy: WatchPolicy | None) -> Embedder:
    """Create the `openai` embedder, whose client is imported only here because the import takes 0.5 s."""
    require_extra("openai", ("openai",), "NOMEMORY_EMBEDDER=openai")
    from nomemory.server.embedding.openai_compatible import OpenAICompatibleEmbedder, create_client  # noqa: PLC0415

    if not settings.embedder.model or not settings.embedder.dimension:
        raise EmbedderSettingsError(
            "NOMEMORY_EMBEDDER=openai requires NOMEMORY_EMBEDDING_MODEL and NOMEMORY_EMBEDDING_DIMENSION"
        )
    key = settings.openai.api_key
    client = create_client(
        settings.openai.base_url, key.get_secret_value() if key else None, settings.embedder.timeout_s
    )
    return OpenAICompatibleEmbedder(
        client, settings.embedder.model, settings.embedder.dimension, settings.embedder.batch_size
    )


_BUILT_IN: Final[Mapping[str, Callable[[Settings, WatchPolicy | None], Embedder]]] = MappingProxyType(
    {
        "auto": _create_default_embedder,
        "local": create_local_embedder,
        "openai": _create_openai_embedder,
        "none": _create_disabled_embedder,
    }
)

EMBEDDERS: Final[ExtensionPoint[EmbedderFactory]] = ExtensionPoint("nomemory.embedders", tuple(_BUILT_IN))
"""Embedders of other packages. An entry point refers to a function that creates the embedder from the settings."""
