"""OAuth for MCP clients: metadata of the protected resource (RFC 9728) and `WWW-Authenticate` challenges."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

from mcp.server.auth.routes import build_resource_metadata_url, create_protected_resource_routes
from pydantic import AnyHttpUrl, BaseModel, ConfigDict
from starlette.routing import Route

from nomemory.client.errors import NoMemoryError
from nomemory.v1 import error_reason_pb2

_CREDENTIALS_MISSING: Final = error_reason_pb2.ErrorReason.Name(error_reason_pb2.ERROR_REASON_CREDENTIALS_MISSING)
_QUOTABLE: Final = re.compile(r"[ !#-\[\]-~]+")
"""The characters that RFC 6750 allows in `error_description`."""


class ProtectedResource(BaseModel):
    """The MCP endpoint as an OAuth protected resource.

    Attributes:
        url: the URL of the MCP endpoint, which is the resource identifier.
        authorization_servers: the issuers of its tokens. An empty path stays empty, because clients compare issuers as
            strings.
        scopes: the scopes that clients should request.
    """

    model_config = ConfigDict(frozen=True, url_preserve_empty_path=True)

    url: AnyHttpUrl
    authorization_servers: tuple[AnyHttpUrl, ...]
    scopes: tuple[str, ...]

    @property
    def host(self) -> str:
        """Host of the endpoint's URL."""
        return self.url.host or ""

    @property
    def metadata_url(self) -> str:
        """URL of the resource metadata."""
        return str(build_resource_metadata_url(self.url))

    def build_routes(self) -> list[Route]:
        """Return the HTTP routes that serve the resource metadata."""
        return create_protected_resource_routes(
            self.url, list(self.authorization_servers), list(self.scopes) or None, resource_name="NoMemory"
        )


def is_identifier(url: str) -> bool:
    """Return whether a URL can identify a resource or an issuer: it has a host, and neither query nor fragment."""
    parts = urlsplit(url)
    return bool(parts.hostname) and not (parts.query or parts.fragment)


class ChallengeHeaders:
    """Creates the `WWW-Authenticate` headers of rejected requests.

    The middleware of the MCP SDK creates similar headers, but without the reason of the rejection and the scopes.

    Args:
        resource: the protected resource; None without OAuth.
    """

    def __init__(self, resource: ProtectedResource | None) -> None:
        self._parameters = {"resource_metadata": resource.metadata_url} if resource else {}
        if resource and resource.scopes:
            self._parameters["scope"] = " ".join(resource.scopes)

    def build_unauthenticated_headers(self, error: NoMemoryError) -> dict[str, str]:
        """Return the header for status 401, without error code if no credentials were sent (RFC 6750, section 3.1)."""
        return self._build_headers(
            {} if error.reason == _CREDENTIALS_MISSING else _build_error("invalid_token", error.message)
        )

    def build_insufficient_scope_headers(self, message: str) -> dict[str, str]:
        """Return the header of a response with status 403."""
        return self._build_headers(_build_error("insufficient_scope", message))

    def _build_headers(self, error: dict[str, str]) -> dict[str, str]:
        parameters = ", ".join(f'{name}="{value}"' for name, value in {**error, **self._parameters}.items())
        return {"www-authenticate": f"Bearer {parameters}".rstrip()}


def _build_error(code: str, message: str) -> dict[str, str]:
    description = {"error_description": message} if _QUOTABLE.fullmatch(message) else {}
    return {"error": code, **description}
