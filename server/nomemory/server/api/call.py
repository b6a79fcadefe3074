"""Representations of a call before and after authentication."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from secrets import token_hex
from typing import Final

from nomemory.server.api.identity.authenticator import AuthContext
from nomemory.server.api.identity.caller import Caller, Metadata
from nomemory.server.api.identity.namespace import Namespace
from nomemory.server.api.identity.user_binding import BoundUser
from nomemory.server.faults import Fault, Reason

REQUEST_ID: Final = "x-request-id"
"""The metadata key of the request id, in requests and responses."""
_RANDOM_BYTES: Final = 13
_VALID_REQUEST_ID: Final = re.compile(r"[\x21-\x7e]{1,128}")
_INTERNAL: Final = Caller("internal", frozenset())
"""The caller of internal calls. It has no scopes and no user."""


def get_request_id(metadata: Metadata) -> str:
    """Return the client's request id if it is 1 to 128 visible ASCII characters, otherwise a random id."""
    request_id = dict(metadata).get(REQUEST_ID, "")
    if isinstance(request_id, str) and _VALID_REQUEST_ID.fullmatch(request_id):
        return request_id
    return token_hex(_RANDOM_BYTES)


@dataclass(frozen=True, slots=True)
class IncomingCall:
    """A call before authentication.

    Attributes:
        path: the path of the method, such as `/nomemory.v1.QueryService/ListMessages`.
        transport: `grpc` or `http`; a label of metrics and spans.
        metadata: the headers, with lower-case names.
        request_id: the id that all responses to the call contain, including errors.
        auth_context: returns the properties of the TLS peer, named as in gRPC (`x509_pem_cert`, …).
        timeout_s: the client's timeout; None if the client sets no timeout.
    """

    path: str
    transport: str
    metadata: Metadata
    request_id: str
    auth_context: AuthContext
    timeout_s: float | None = None


@dataclass(frozen=True, slots=True)
class CallContext:
    """An authorized call.

    Attributes:
        request_id: identifies the call in logs and in the response.
        deadline: the time on the event loop's clock at which the call times out.
        bound: the user whose messages a recall reads; None for other methods.
        transport: `grpc`, `http`, or `internal` for calls that the server makes itself.
    """

    request_id: str
    deadline: float
    caller: Caller = _INTERNAL
    bound: BoundUser | None = None
    transport: str = "internal"

    @property
    def namespace(self) -> Namespace | None:
        """The namespace whose users the caller may access; None if the caller may access all users."""
        return self.caller.namespace

    @property
    def user_prefix(self) -> str:
        """The prefix of the stored user ids that the caller may access; empty if the caller may access all users.

        Methods without a `user_id` in the request only count and list users with this prefix.
        """
        return self.namespace.prefix if self.namespace else ""

    def compute_remaining_s(self) -> float:
        """Return the number of seconds until the deadline, which is negative after the deadline."""
        return self.deadline - asyncio.get_running_loop().time()

    def require_bound_user(self) -> str:
        """Return the stored id of the user that the call is bound to.

        Raises:
            Fault: USER_NOT_BOUND, the call is not bound to a user.
        """
        if self.bound is None:
            raise Fault(Reason.ERROR_REASON_USER_NOT_BOUND, "this call is not bound to a user: send `x-user-id`")
        return self.bound.user_id
