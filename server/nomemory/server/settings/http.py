"""HTTP and JSON beside gRPC (docs/http.md)."""

from __future__ import annotations

from typing import ClassVar, Final

from pydantic import Field

from nomemory.server.settings.group import SettingsGroup, variables

INSPECTOR_ADDRESS: Final = "127.0.0.1:7701"
"""Where HTTP is served for the inspector's sake alone."""


class HttpSettings(SettingsGroup):
    """HTTP and JSON beside gRPC (docs/http.md)."""

    model_config = variables("http_")
    heading: ClassVar[str] = "HTTP"

    listen: str = Field(
        "",
        description="HOST:PORT to serve HTTP and JSON on, too; port 0 picks a free one. Empty: HTTP is not served, or "
        f"at {INSPECTOR_ADDRESS} with NOMEMORY_INSPECT.",
        validation_alias="NOMEMORY_HTTP",
    )
    inspect: bool = Field(
        default=False,
        description="Whether the inspector is served, a page at `/inspect/` that reads (docs/inspector.md).",
        validation_alias="NOMEMORY_INSPECT",
    )
    connections_max: int = Field(
        1024,
        ge=1,
        description="Most connections of a process over HTTP. Further ones take the place of those that have brought "
        "no request, or are closed.",
    )
    head_max_bytes: int = Field(
        32_768, ge=1024, description="Most bytes of a request before its body: its line and its headers."
    )
    head_s: float = Field(10.0, gt=0, description="How long these may take to arrive, the TLS handshake included.")
    pipelined_max: int = Field(16, ge=0, description="Most requests that a connection sends ahead of its answers.")
    json_values_max: int = Field(
        100_000,
        ge=1,
        description="Most values in the JSON of a request, but for the numbers of plain arrays: its commas and "
        "brackets are counted.",
    )
    json_numbers_max: int = Field(
        2_000_000, ge=1, description="Most numbers in plain arrays of the JSON of a request, such as embeddings."
    )
    heartbeat_s: float = Field(
        15.0, gt=0, description="How long a stream of events may be silent before an empty comment is sent."
    )
    cors_origins: str = Field(
        "",
        description="Origins whose pages may call the server from a browser, such as `https://chat.example`, separated "
        "by spaces. `*`: any. Empty: none.",
    )
    cors_max_age_s: int = Field(600, ge=0, description="How long a browser may remember that.")
