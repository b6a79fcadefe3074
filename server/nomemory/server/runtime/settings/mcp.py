"""Settings of the MCP server."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from nomemory.server.runtime.settings.group import SettingsGroup, map_fields_to_variables


class McpSettings(SettingsGroup):
    """Settings of the MCP server, `nomemory mcp` (docs/mcp.md)."""

    model_config = map_fields_to_variables("mcp_")
    heading: ClassVar[str] = "MCP server"

    forget: bool = Field(
        default=True,
        description="Whether `nomemory mcp` offers the tool `forget`, which deletes messages. The caller also needs "
        "the scope `ingest`.",
    )
    resource_url: str = Field(
        "",
        description="Public https URL of the endpoint of `nomemory mcp --http`, such as `https://memory.example/mcp`. "
        "It is the resource identifier in the OAuth metadata. Requires NOMEMORY_MCP_AUTHORIZATION_SERVERS. If empty, "
        "the endpoint has no OAuth metadata.",
    )
    authorization_servers: str = Field(
        "",
        description="https URLs of the authorization servers whose tokens the server accepts, separated by spaces. "
        "Requires NOMEMORY_MCP_RESOURCE_URL.",
    )
    scopes: str = Field(
        "query recall",
        description="Scopes that MCP clients should request from the authorization server, separated by spaces. "
        "If empty, the metadata contains no scopes.",
    )
