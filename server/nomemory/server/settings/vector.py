"""Which vector index there is, and how it is kept up."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field, SecretStr

from nomemory.server.settings.group import SettingsGroup, variables


class VectorSettings(SettingsGroup):
    """Which vector index there is, and how it is kept up."""

    model_config = variables("vector_")
    heading: ClassVar[str] = "The vector index"

    qdrant_url: str | None = Field(
        None,
        description="A Qdrant server (gRPC or HTTP URL). Unset: embedded Qdrant Edge.",
        validation_alias="NOMEMORY_QDRANT_URL",
    )
    qdrant_api_key: SecretStr | None = Field(
        None, description="API key of the Qdrant server.", validation_alias="NOMEMORY_QDRANT_API_KEY"
    )
    qdrant_buckets: int = Field(
        0,
        ge=0,
        le=1024,
        description="Shard keys of a collection on a Qdrant cluster. Each user's vectors lie in one of them, chosen by "
        "a hash. 0: none, for a server that is no cluster. Another number makes another collection, filled anew.",
        validation_alias="NOMEMORY_QDRANT_BUCKETS",
    )
    qdrant_replicas: int = Field(
        1,
        ge=1,
        le=9,
        description="Copies of each shard on a Qdrant cluster. It counts when a collection is made.",
        validation_alias="NOMEMORY_QDRANT_REPLICAS",
    )
    qdrant_acknowledged: int = Field(
        0,
        ge=0,
        le=9,
        description="Copies that must have a write before it counts, when a collection is made. 0: more than half.",
        validation_alias="NOMEMORY_QDRANT_ACKNOWLEDGED",
    )
    flush_s: float = Field(5.0, gt=0, description="How often the embedded vector index is flushed to disk.")
    shard_points: int = Field(
        300_000,
        ge=1000,
        description="Most vectors of a shard of the embedded vector index, on the average. When there are more it is "
        "spread over more shards, each with a process and a part of the users, while it serves.",
    )
    pack_points: int = Field(
        20_000,
        ge=1,
        description="New vectors of a shard that are packed together, each user's beside each other: a packed one "
        "takes less memory and time. The shard does not answer meanwhile, for half a second with 20,000.",
    )
    timeout_s: float = Field(30.0, gt=0, description="How long the vector engine may take to answer.")
    probe_s: float = Field(
        5.0,
        gt=0,
        description="How often a Qdrant server is asked whether it is there, and how long it may take to say so.",
    )
    hot_user_s: float = Field(
        60.0,
        ge=0,
        description="How long after a semantic query a user's backlog goes first.",
        validation_alias="NOMEMORY_HOT_USER_S",
    )
