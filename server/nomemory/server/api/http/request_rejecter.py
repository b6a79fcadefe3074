"""Error responses to HTTP requests that the server rejects before a call starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from starlette.types import Scope

from nomemory.server.api.errors import encode_status, get_short_reason
from nomemory.server.api.http.errors import build_error_reply
from nomemory.server.api.http.json_reply import JsonReply
from nomemory.server.api.http.request_id import get_scope_request_id
from nomemory.server.faults import Fault
from nomemory.server.runtime.metrics import catalog
from nomemory.server.runtime.metrics.meters import Meters
from nomemory.server.runtime.structured_logs import get_logger

_log = get_logger("http")


@dataclass(frozen=True, slots=True)
class RequestRejecter:
    """Creates error responses, and logs and counts them."""

    meters: Meters

    def reject(
        self, scope: Scope, fault: Fault, http_status: int | None = None, headers: Mapping[str, str] | None = None
    ) -> JsonReply:
        """Return the error response to an HTTP request.

        If `http_status` is None, the HTTP status code is derived from the fault.
        """
        request_id = get_scope_request_id(scope)
        reply = build_error_reply(encode_status(fault, request_id), http_status)
        reply.headers.update(headers or {})
        self.meters.count(catalog.HTTP_REJECTED, get_short_reason(fault))
        reason = f"ERROR_REASON_{get_short_reason(fault)}"
        _log.info("request rejected", request_id=request_id, status=reply.status_code, reason=reason)
        return reply
