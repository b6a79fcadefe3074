"""Refusals: replies to requests that fail before, or outside of, a call of the contract."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from starlette.types import Scope

from nomemory.server.api.errors import plain_reason, status_of
from nomemory.server.api.http.errors import error_reply
from nomemory.server.api.http.json_reply import JsonReply
from nomemory.server.api.http.request_id import request_id_in
from nomemory.server.faults import Fault
from nomemory.server.runtime.metrics import catalog
from nomemory.server.runtime.metrics.meters import Meters
from nomemory.server.runtime.structured_logs import get_logger

_log = get_logger("http")


@dataclass(frozen=True, slots=True)
class Refusals:
    """Makes the replies, logs and counts them.

    Attributes:
        meters: count them.
    """

    meters: Meters

    def reply(
        self, scope: Scope, fault: Fault, http_status: int | None = None, headers: Mapping[str, str] | None = None
    ) -> JsonReply:
        """Return the reply to a request.

        Args:
            scope: ASGI's description of the request.
            fault: why it is refused.
            http_status: the HTTP status; None: that of the fault's code.
            headers: further headers.
        """
        request_id = request_id_in(scope)
        reply = error_reply(status_of(fault, request_id), http_status)
        reply.headers.update(headers or {})
        self.meters.count(catalog.HTTP_REJECTED, plain_reason(fault))
        reason = f"ERROR_REASON_{plain_reason(fault)}"
        _log.info("refused", request_id=request_id, status=reply.status_code, reason=reason)
        return reply
