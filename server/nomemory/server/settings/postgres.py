"""How a message log in PostgreSQL is reached."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field, SecretStr

from nomemory.server.settings.group import SettingsGroup, variables


class PostgresSettings(SettingsGroup):
    """How a message log in PostgreSQL is reached."""

    model_config = variables("postgres_")
    heading: ClassVar[str] = "PostgreSQL, with `NOMEMORY_LOG`"

    pool_max: int = Field(10, ge=1, description="Most connections that each process reads through.")
    writers: int = Field(
        2,
        ge=1,
        le=64,
        description="Connections that the server's first process writes through. Each has its share of the users. With "
        "more of them, writes of several servers wait less for each other; with fewer, more writes share a commit.",
    )
    connect_timeout_s: float = Field(5.0, gt=0, description="Seconds that a connection may take, and a wait for one.")
    statement_timeout_s: float = Field(
        30.0, ge=0.1, description="Seconds after which a statement is given up, whatever the deadline of its call."
    )
    standby: SecretStr | None = Field(
        None,
        description="URL of a standby of the log's database. Reads that bring a write token are answered from it, if "
        "it has that write. Unset: the primary answers all.",
    )
    lease_s: float = Field(
        6.0,
        ge=0.3,
        description="Seconds that the server which fills a shared Qdrant may be silent, or gone, before another one "
        "begins to.",
    )
    watch_s: float = Field(
        2.0,
        gt=0,
        description="Seconds between two looks whether the database answers, and that an answer may take. While there "
        "is none, the server's health is NOT_SERVING.",
    )
