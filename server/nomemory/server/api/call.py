"""A call: as a transport hands it to the pipeline, and as handlers see it."""

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
"""Metadata of a request and of its reply."""
_RANDOM_BYTES: Final = 13
_USABLE: Final = re.compile(r"[\x21-\x7e]{1,128}")
_INTERNAL: Final = Caller("internal", frozenset())
"""The caller of a call that this server makes itself. It has no scopes and no user."""


def request_id_of(metadata: Metadata) -> str:
    """Return the client's request id, or 26 random hexadecimal digits.

    The client's id is used if it has 1 to 128 visible ASCII characters, because it goes to the log and to the reply.
    """
    sent = dict(metadata).get(REQUEST_ID, "")
    return sent if isinstance(sent, str) and _USABLE.fullmatch(sent) else token_hex(_RANDOM_BYTES)


@dataclass(frozen=True, slots=True)
class IncomingCall:
    """A call before anything is known about its caller.

    Attributes:
        path: of the method, "/nomemory.v1.QueryService/ListMessages".
        transport: "grpc" or "http", as metrics and spans name it.
        metadata: headers with lower-case names.
        request_id: from `request_id_of(metadata)`. The adapter returns it with the reply, also with an error.
        auth_context: returns the properties of the TLS peer in gRPC's form (`x509_pem_cert`, …).
        timeout_s: seconds that the client gives the call; None if it says nothing.
    """

    path: str
    transport: str
    metadata: Metadata
    request_id: str
    auth_context: AuthContext
    timeout_s: float | None = None


@dataclass(frozen=True, slots=True)
class CallContext:
    """An authorized call, as its handler sees it.

    Attributes:
        request_id: names the call in logs and in the reply.
        deadline: when the call ends at the latest, in the event loop's time.
        caller: who calls.
        bound: the one user whom a recall may read; None for methods that bind no user.
        transport: "grpc" or "http"; "internal" for a call of this server to itself.
    """

    request_id: str
    deadline: float
    caller: Caller = _INTERNAL
    bound: BoundUser | None = None
    transport: str = "internal"

    @property
    def namespace(self) -> Namespace | None:
        """The namespace whose users the caller may see; None: all users."""
        return self.caller.namespace

    @property
    def user_prefix(self) -> str:
        """The prefix of the stored ids of all users whom the caller may see; empty: all users.

        Methods whose request names no user restrict their counts and lists to it.
        """
        return self.namespace.prefix if self.namespace else ""

    def remaining_s(self) -> float:
        """Return the seconds until the deadline; negative after it."""
        return self.deadline - asyncio.get_running_loop().time()

    def bound_user(self) -> str:
        """Return the stored id of the one user whom this call may read.

        Raises:
            Fault: USER_NOT_BOUND, the call is bound to no user.
        """
        if self.bound is None:
            raise Fault(Reason.ERROR_REASON_USER_NOT_BOUND, "this call is bound to no user")
        return self.bound.user_id
