"""The metrics endpoint, in the Prometheus text format."""

from __future__ import annotations

import asyncio
import hmac
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from nomemory.server.api.http.json_reply import UNCACHED
from nomemory.server.api.http.request_metadata import read_auth_context, read_metadata
from nomemory.server.api.identity.access import AccessControl, RequiredScopes
from nomemory.server.api.identity.caller import Metadata, Scope
from nomemory.server.api.identity.credentials import SentBearerToken, read_credential
from nomemory.server.api.identity.factory import requires_credentials
from nomemory.server.faults import Fault, Reason
from nomemory.server.runtime.metrics.exporter import MetricsExporter
from nomemory.server.runtime.metrics.text import CONTENT_TYPE
from nomemory.server.runtime.settings import Settings

_PATH: Final = "/metrics"
_REQUIRED: Final = RequiredScopes(frozenset({Scope.ADMIN}))
"""The scopes required of callers without the scrape token."""


@dataclass(frozen=True, slots=True)
class MetricsPage:
    """The metrics endpoint.

    If credentials or a scrape token are configured, a request needs the scrape token, or the credential of a caller
    with the scope `admin` and without a namespace. Without credentials and a scrape token, all local clients can read
    the metrics.

    Attributes:
        access: authenticates the callers that do not send the scrape token.
    """

    exporter: MetricsExporter
    access: AccessControl
    settings: Settings

    def route(self) -> Route:
        """Return the route of the metrics endpoint."""
        return Route(_PATH, self._serve_metrics)

    async def _serve_metrics(self, request: Request) -> Response:
        """Return the metrics.

        Raises:
            Fault: CREDENTIALS_MISSING, CREDENTIALS_INVALID, SCOPE_MISSING or DEADLINE_EXCEEDED.
        """
        await self._authorize(request)
        async with asyncio.timeout(self.settings.timing.default_deadline_s):
            text = await self.exporter.text()
        return Response(text, headers={**UNCACHED, "content-type": CONTENT_TYPE})

    async def _authorize(self, request: Request) -> None:
        checks = requires_credentials(self.settings)
        if self.settings.metrics.token is None and not checks:
            return
        metadata = read_metadata(request.scope)
        if self._has_token(metadata):
            return
        if not checks:
            raise Fault(
                Reason.ERROR_REASON_CREDENTIALS_INVALID, "metrics require the bearer token of NOMEMORY_METRICS_TOKEN"
            )
        caller = await self.access.authenticate(metadata, lambda: read_auth_context(request.scope))
        self.access.authorize(caller, _REQUIRED, metadata)
        if caller.namespace is not None:
            raise Fault(Reason.ERROR_REASON_SCOPE_MISSING, "keys with a namespace cannot read the server's metrics")

    def _has_token(self, metadata: Metadata) -> bool:
        sent = read_credential(metadata)
        token = self.settings.metrics.token
        if token is None or not isinstance(sent, SentBearerToken):
            return False
        return hmac.compare_digest(sent.text.encode(), token.get_secret_value().encode())
