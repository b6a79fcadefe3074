"""Settings for listening, processes, connections and timeouts."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Final, Literal

from pydantic import Field, SecretStr, field_validator

from nomemory.server.runtime.settings.group import SettingsGroup, map_fields_to_variables


class ServerSettings(SettingsGroup):
    """Settings of the data directory, the listen address and logging."""

    heading: ClassVar[str] = "Server"

    data: Path = Field(
        Path("./data"), description="Data directory, which contains the message log, the indexes and the token key."
    )
    database_url: SecretStr | None = Field(
        None,
        description="URL of the PostgreSQL database of the message log, `postgresql://…`. "
        "If unset, the message log is a SQLite file in the data directory.",
    )
    key_file: Path | None = Field(
        None,
        description="Key file for encrypting cursors and write tokens. Servers that share a message log must "
        "share the key. If unset, the file is `server.key` in the data directory, and is created if missing.",
    )
    listen: str = Field(
        "127.0.0.1:7700",
        description="HOST:PORT of the gRPC API, or `unix:PATH` for a Unix domain socket that only its owner can "
        "use. Port 0 picks a free port.",
    )
    min_free_disk_bytes: int = Field(
        32_000_000, ge=0, description="Free disk space that the server requires at startup, in bytes."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Minimum level of log records. `debug` may log message content."
    )
    audit_log: bool = Field(
        default=True,
        description="Whether to write an audit record for each write, deletion, erasure and recall of an "
        "authenticated caller.",
    )
    reflection: bool = Field(
        default=True, description="Whether to enable gRPC server reflection, which requires no credentials."
    )

    @field_validator("database_url")
    @classmethod
    def _check_database_url(cls, url: SecretStr | None) -> SecretStr | None:
        if url is None or not url.get_secret_value():
            return None
        if not url.get_secret_value().startswith(("postgresql://", "postgres://")):
            raise ValueError("must begin with postgresql://")
        return url


INSPECTOR_ADDRESS: Final = "127.0.0.1:7701"
"""The HTTP address if the inspector is enabled without an HTTP listen address."""


class HttpSettings(SettingsGroup):
    """Settings of the HTTP API and the inspector (docs/http.md)."""

    model_config = map_fields_to_variables("http_")
    heading: ClassVar[str] = "HTTP"

    listen: str = Field(
        "",
        description="HOST:PORT of the HTTP API. Port 0 picks a free port. If empty, HTTP is disabled, "
        f"unless NOMEMORY_INSPECTOR is true; the address is then {INSPECTOR_ADDRESS}.",
        validation_alias="NOMEMORY_HTTP_LISTEN",
    )
    inspector: bool = Field(
        default=False,
        description="Whether to serve the read-only web inspector at `/inspect/` (docs/inspector.md).",
        validation_alias="NOMEMORY_INSPECTOR",
    )
    cors_origins: str = Field(
        "",
        description="Origins that may call the HTTP API from a browser, such as `https://chat.example`, separated "
        "by spaces. `*` allows any origin. If empty, no origin is allowed.",
    )


class ProcessSettings(SettingsGroup):
    """Settings of the watchdog of worker processes (docs/operating.md)."""

    model_config = map_fields_to_variables("process_")
    heading: ClassVar[str] = "Worker processes"

    heartbeat_s: float = Field(1.0, gt=0, description="Interval between heartbeats to worker processes, in seconds.")
    idle_timeout_s: float = Field(
        5.0,
        gt=0,
        description="Time, in seconds, after which a process that misses heartbeats and uses no CPU is killed and "
        "replaced.",
    )
    busy_timeout_s: float = Field(
        60.0,
        gt=0,
        description="Time, in seconds, after which a process that misses heartbeats is killed and replaced even if it "
        "still uses the CPU.",
    )
    memory_bytes: int = Field(
        4 << 30,
        ge=0,
        description="Memory limit of an indexer, vector index or embedder process, in bytes, without file-backed "
        "pages. The limit also applies to the size of a file of the vector index. A process above the limit is "
        "replaced. 0 disables the limit.",
    )


class ConnectionSettings(SettingsGroup):
    """Settings of client connections."""

    heading: ClassVar[str] = "Connections"

    max_connections: int = Field(
        4096,
        ge=1,
        description="Maximum number of gRPC connections, reduced if the limit on open files is lower. Further "
        "connections are closed.",
    )
    connection_idle_timeout_s: float = Field(
        600.0,
        ge=1,
        le=86_400,
        description="Time after which a connection without calls is closed, in seconds. Clients reconnect "
        "automatically.",
    )


class TimingSettings(SettingsGroup):
    """Settings of deadlines and lifetimes."""

    heading: ClassVar[str] = "Timeouts"

    default_deadline_s: float = Field(
        30.0, gt=0, description="Deadline of calls without a client deadline, in seconds."
    )
    drain_timeout_s: float = Field(
        5.0, ge=0, description="Time that in-flight calls have to finish after SIGTERM, in seconds."
    )
    cursor_lifetime_s: float = Field(86_400.0, gt=0, description="Time after which a cursor expires, in seconds.")
