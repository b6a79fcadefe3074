"""Where a server listens, and what its callers may hold of it."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Final, Literal

from pydantic import Field, SecretStr, field_validator

from nomemory.server.runtime.settings.group import SettingsGroup, variables


class ServerSettings(SettingsGroup):
    """Where a server keeps its data, where it serves, what it logs."""

    heading: ClassVar[str] = "Where it serves"

    data: Path = Field(Path("./data"), description="Directory of the log, the indexes and the server's key.")
    log: SecretStr | None = Field(
        None,
        description="URL of the PostgreSQL database that has the message log, `postgresql://…`, with its password if "
        "it has one. Unset: a file in the data directory has the log.",
    )
    key_file: Path | None = Field(
        None,
        description="File of the key that seals cursors and write tokens, where servers of one log share it. Unset: "
        "`server.key` in the data directory, which is made there.",
    )
    listen: str = Field(
        "127.0.0.1:7700",
        description="HOST:PORT to serve on; port 0 picks a free one. `unix:PATH`: a socket of its owner alone.",
    )
    min_free_disk_bytes: int = Field(
        32_000_000, ge=0, description="Free bytes on the data's disk without which the server does not start."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="Least level to log.")
    audit: bool = Field(
        default=True,
        description="Whether each write, deletion, erasure and recall in somebody's name leaves a line of audit.",
    )
    reflection: bool = Field(
        default=True, description="Whether the server describes its contract to anybody who can reach it."
    )

    @field_validator("log")
    @classmethod
    def _check_log(cls, log: SecretStr | None) -> SecretStr | None:
        if log is None or not log.get_secret_value():
            return None
        if not log.get_secret_value().startswith(("postgresql://", "postgres://")):
            raise ValueError("must begin with postgresql://")
        return log


INSPECTOR_ADDRESS: Final = "127.0.0.1:7701"

"""Where HTTP is served for the inspector's sake alone."""


class HttpSettings(SettingsGroup):
    """HTTP and JSON beside gRPC (docs/http.md)."""

    model_config = variables("http_")
    heading: ClassVar[str] = "HTTP"

    listen: str = Field(
        "",
        description="HOST:PORT to serve HTTP and JSON on, too; port 0 picks a free one. Empty: HTTP is not served, or "
        f"at {INSPECTOR_ADDRESS} with NOMEMORY_INSPECTOR.",
        validation_alias="NOMEMORY_HTTP_LISTEN",
    )
    inspect: bool = Field(
        default=False,
        description="Whether the inspector is served, a page at `/inspect/` that reads (docs/inspector.md).",
        validation_alias="NOMEMORY_INSPECTOR",
    )
    cors_origins: str = Field(
        "",
        description="Origins whose pages may call the server from a browser, such as `https://chat.example`, separated "
        "by spaces. `*`: any. Empty: none.",
    )


class ProcessSettings(SettingsGroup):
    """How a server watches its worker processes (docs/operating.md)."""

    model_config = variables("process_")
    heading: ClassVar[str] = "Watching processes"

    heartbeat_s: float = Field(1.0, gt=0, description="Interval of heartbeats of the worker processes, in seconds.")
    idle_timeout_s: float = Field(
        5.0, gt=0, description="How long a process may miss heartbeats and do nothing before it is killed and replaced."
    )
    busy_timeout_s: float = Field(60.0, gt=0, description="The same for a process that works.")
    memory_bytes: int = Field(
        4 << 30,
        ge=0,
        description="Most memory of an indexer, the vector engine or an embedder (pages of files not counted), and the "
        "largest file of the vector engine; beyond it the process is replaced. 0: no bound.",
    )


class ConnectionSettings(SettingsGroup):
    """Connections of clients."""

    heading: ClassVar[str] = "Connections"

    max_connections: int = Field(
        4096,
        ge=1,
        description="Maximum connections over gRPC, fewer where the limit on open files is lower. Further ones are "
        "closed.",
    )
    connection_idle_timeout_s: float = Field(
        600.0, ge=1, le=86_400, description="How long a connection without a call stays open. Clients open another."
    )


class TimingSettings(SettingsGroup):
    """How long calls, cursors and waits may take."""

    heading: ClassVar[str] = "Time"

    default_deadline_s: float = Field(30.0, gt=0, description="Deadline where a client sets none.")
    drain_timeout_s: float = Field(5.0, ge=0, description="How long calls in flight may finish after SIGTERM.")
    cursor_lifetime_s: float = Field(86_400.0, gt=0, description="Lifetime of a cursor, in seconds.")
