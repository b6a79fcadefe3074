"""Settings for the message log, retention and erasure."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from nomemory.server.runtime.settings.group import SettingsGroup, map_fields_to_variables


class LogSettings(SettingsGroup):
    """Settings of the write queue and the damage check of the message log."""

    heading: ClassVar[str] = "Message log"

    max_queued_writes: int = Field(
        256,
        ge=1,
        description="Maximum number of write batches that wait for the message log. Further writes fail with "
        "OVERLOADED.",
    )
    max_queued_write_bytes: int = Field(
        64_000_000,
        ge=1,
        description="Maximum total size of queued write batches, in bytes. Further writes fail with OVERLOADED.",
    )
    check_pause_s: float = Field(
        0.05,
        ge=0,
        description="Pause after every 256 messages of the background damage check, in seconds. A longer pause "
        "reduces disk load.",
        validation_alias="NOMEMORY_LOG_CHECK_PAUSE_S",
    )


class PostgresSettings(SettingsGroup):
    """Settings of the connections to PostgreSQL."""

    model_config = map_fields_to_variables("postgres_")
    heading: ClassVar[str] = "PostgreSQL, with `NOMEMORY_DATABASE_URL`"

    pool_size: int = Field(10, ge=1, description="Maximum number of connections for reads.")
    write_connections: int = Field(
        2,
        ge=1,
        le=64,
        description="Number of connections for writes, among which users are distributed. With more connections, "
        "writes of several servers wait less for each other; with fewer, more writes share a commit.",
    )
    connect_timeout_s: float = Field(
        5.0, gt=0, description="Time limit for opening a connection or waiting for a free one, in seconds."
    )
    statement_timeout_s: float = Field(
        30.0, ge=0.1, description="Time limit of a statement, in seconds, independent of the deadline of the call."
    )
    indexer_lock_lease_s: float = Field(
        6.0,
        ge=0.3,
        validation_alias="NOMEMORY_INDEXER_LOCK_LEASE_S",
        description="Lease of the lock that elects the indexing server of a shared Qdrant collection, in seconds. "
        "After a crash, another server takes over when the lease expires.",
    )


class RetentionSettings(SettingsGroup):
    """Settings of retention, which deletes messages after a maximum age."""

    model_config = map_fields_to_variables("retention_")
    heading: ClassVar[str] = "Retention"

    days: float = Field(
        0.0,
        ge=0,
        le=3_650_000,
        description="Maximum age of a message in days, based on its `ts`. Older messages are hidden from reads "
        "and deleted soon after. 0 keeps messages until their `expire_ts`.",
    )
    sweep_interval_s: float = Field(
        5.0, gt=0, description="Interval between deletions of expired messages, in seconds."
    )
    sweep_batch_size: int = Field(500, ge=1, description="Maximum number of expired messages deleted in one commit.")


class ErasureSettings(SettingsGroup):
    """Settings of the physical erasure of deleted messages (docs/operating.md)."""

    model_config = map_fields_to_variables("erase_")
    heading: ClassVar[str] = "Erasure"

    within_s: float = Field(
        86_400.0,
        gt=0,
        description="Time within which the bytes of a deleted, replaced or expired message are erased from all "
        "files, in seconds. Erasure starts after half of this time.",
    )
    max_vacuum_bytes: int = Field(
        64_000_000,
        ge=0,
        description="Maximum size, in bytes, of a SQLite message log that is vacuumed as a whole. Vacuuming blocks "
        "writes for some tenths of a second. A larger message log is vacuumed incrementally.",
    )
    max_retry_delay_s: float = Field(
        60.0, gt=0, description="Maximum delay before a failed erasure of vectors is retried, in seconds."
    )
    batch_size: int = Field(
        500, ge=1, description="Maximum number of messages that an index erases before it processes other jobs."
    )
    max_pages: int = Field(
        1000,
        ge=1,
        description="Maximum number of 4 KB pages of a SQLite message log that are overwritten or released between "
        "two writes.",
    )
