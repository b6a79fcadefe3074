"""The message log, what leaves it, and when."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from nomemory.server.runtime.settings.group import Fixed, SettingsGroup, variables


class LogSettings(SettingsGroup):
    """What waits for the log's writer."""

    model_config = variables("write_")
    heading: ClassVar[str] = "The message log"

    queue_max: Fixed[int] = 256
    """Most batches that wait for the log's writer."""
    queue_max_bytes: Fixed[int] = 64_000_000
    """Most bytes of messages in those batches."""


class PostgresSettings(SettingsGroup):
    """How a message log in PostgreSQL is reached."""

    model_config = variables("postgres_")
    heading: ClassVar[str] = "PostgreSQL, with `NOMEMORY_LOG`"

    pool_max: int = Field(10, ge=1, description="Most connections that the server reads through.")
    writers: int = Field(
        2,
        ge=1,
        le=64,
        description="Connections that the server's first process writes through. Each has its share of the users. With "
        "more of them, writes of several servers wait less for each other; with fewer, more writes share a commit.",
    )
    connect_timeout_s: Fixed[float] = 5.0
    """Seconds that a connection may take, and a wait for one."""
    statement_timeout_s: float = Field(
        30.0, ge=0.1, description="Seconds after which a statement is given up, whatever the deadline of its call."
    )
    lease_s: float = Field(
        6.0, ge=0.3, description="Seconds that the server which fills a shared Qdrant may be silent or gone."
    )
    watch_s: Fixed[float] = 2.0
    """Seconds between two looks whether the database answers, and that an answer may take. While there is none,
    the server's health is NOT_SERVING."""


class CheckSettings(SettingsGroup):
    """The check of the log for damage."""

    model_config = variables("log_check_")
    heading: ClassVar[str] = "The check of the message log"

    interval_s: Fixed[float] = 86_400.0
    """Seconds between two looks at the whole log for damage; the first is at the start."""
    pause_s: Fixed[float] = 0.05
    """Seconds of rest after each 256 messages that are looked at."""


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
    sweep_s: Fixed[float] = 5.0
    """Seconds between two looks for messages that have expired."""
    sweep_batch_max: Fixed[int] = 500
    """Most expired messages that one commit deletes."""


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
    retry_s: Fixed[float] = 60.0
    """Most seconds after which the erasure of vectors is tried again that could not be done."""
    at_removals: Fixed[int] = 100_000
    """Removed messages that have it begin at once."""
    batch_max: Fixed[int] = 500
    """Most messages in a piece of it: between two pieces others go on."""
    pages_max: Fixed[int] = 1000
    """Most pages of the log, of 4 KB, in a piece of it."""
    vacuum_max_bytes: Fixed[int] = 64_000_000
    """A log up to this size is rewritten as a whole: some tenths of a second in which writes wait. A larger one
    is cleaned in pieces."""
