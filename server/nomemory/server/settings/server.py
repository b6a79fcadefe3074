"""Where a server keeps its data, where it serves, what it logs."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field, SecretStr, field_validator

from nomemory.server.settings.group import SettingsGroup


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
    listen: str = Field("127.0.0.1:7700", description="HOST:PORT to serve on; port 0 picks a free one.")
    free_bytes_min: int = Field(
        32_000_000,
        ge=0,
        description="Free bytes on the data's disk without which the server does not start; erasing vectors leaves as "
        "many.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="Least level to log.")
    audit: bool = Field(
        default=True,
        description="Whether each write, deletion, erasure and recall in somebody's name leaves a line of audit.",
    )
    audit_file: Path | None = Field(None, description="File that gets these lines. Unset: standard error.")
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
