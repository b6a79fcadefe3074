"""The message log, what leaves it, and when."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from nomemory.server.runtime.settings.group import SettingsGroup, variables


class LogSettings(SettingsGroup):
    """What waits for the log's writer."""

    model_config = variables("write_")
    heading: ClassVar[str] = "The message log"

    queue_max: int = Field(
        256, ge=1, description="Maximum batches that wait for the log's writer; further ones are refused."
    )
    queue_max_bytes: int = Field(64_000_000, ge=1, description="Maximum bytes of messages in those batches.")
    check_pause_s: float = Field(
        0.05,
        ge=0,
        description="Seconds of rest after each 256 messages that the check for damage reads.",
        validation_alias="NOMEMORY_LOG_CHECK_PAUSE_S",
    )


class PostgresSettings(SettingsGroup):
    """How a message log in PostgreSQL is reached."""

    model_config = variables("postgres_")
    heading: ClassVar[str] = "PostgreSQL, with `NOMEMORY_DATABASE_URL`"

    pool_max: int = Field(10, ge=1, description="Most connections that the server reads through.")
    writers: int = Field(
        2,
        ge=1,
        le=64,
        description="Connections that the server's first process writes through. Each has its share of the users. With "
        "more of them, writes of several servers wait less for each other; with fewer, more writes share a commit.",
    )
    connect_timeout_s: float = Field(
        5.0, gt=0, description="Time limit for opening a connection, and for waiting for one, in seconds."
    )
    statement_timeout_s: float = Field(
        30.0, ge=0.1, description="Seconds after which a statement is given up, whatever the deadline of its call."
    )
    lease_s: float = Field(
        6.0, ge=0.3, description="Seconds that the server which fills a shared Qdrant may be silent or gone."
    )


class RetentionSettings(SettingsGroup):
    """How long messages are kept."""

    model_config = variables("retention_")
    heading: ClassVar[str] = "Retention"

    days: float = Field(
        0.0,
        ge=0,
        le=3_650_000,
        description="Greatest age of a message in days, counted from its `ts`: what is older is gone from every read "
        "and deleted soon after. 0: messages stay until their own `expire_ts`.",
    )
    sweep_s: float = Field(5.0, gt=0, description="Interval at which expired messages are deleted, in seconds.")
    sweep_batch_size: int = Field(500, ge=1, description="Maximum expired messages that one commit deletes.")


class ErasureSettings(SettingsGroup):
    """How what was deleted leaves the files (docs/operating.md)."""

    model_config = variables("erase_")
    heading: ClassVar[str] = "Erasure"

    within_s: float = Field(
        86_400.0,
        gt=0,
        description="Seconds after which the bytes of a deleted, replaced or expired message are gone from every file. "
        "The work begins after half of it.",
    )
    max_vacuum_bytes: int = Field(
        64_000_000,
        ge=0,
        description="A log up to this size is rewritten as a whole: writes wait for some tenths of a second. A "
        "larger one is cleaned in pieces.",
    )
    retry_s: float = Field(60.0, gt=0, description="Longest time until a failed erasure of vectors is retried.")
    batch_max: int = Field(500, ge=1, description="Maximum messages that an index erases between two other jobs.")
    pages_max: int = Field(
        1000, ge=1, description="Maximum pages of the log's file, of 4 KB, cleaned between two writes."
    )
