"""One call of an RPC, as a service sees it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from google.protobuf.message import Message as ProtoMessage

from nomemory.server.faults import Fault, Reason
from nomemory.server.identity.access import UNADMITTED, Admission, Need

Reply = bytes | ProtoMessage
"""A reply, or the bytes of one."""


@dataclass(frozen=True, slots=True)
class Call:
    """Who calls and how long they wait. `give_up` is in the event loop's time."""

    request_id: str
    give_up: float
    admission: Admission = UNADMITTED

    def remaining_s(self) -> float:
        """Return the seconds that are left."""
        return self.give_up - asyncio.get_running_loop().time()

    def bound_user(self) -> str:
        """Return the one user that this call may read; for methods whose need `binds_user`.

        Raises:
            Fault: USER_NOT_BOUND, the call was admitted without one.
        """
        if self.admission.bound is None:
            raise Fault(Reason.ERROR_REASON_USER_NOT_BOUND, "this call is bound to no user")
        return self.admission.bound.user_id


# Any: each method takes the request type of its own RPC, which the service's descriptor names at run time.
Unary = Callable[[Any, Call], Awaitable[Reply]]
ClientStream = Callable[[AsyncIterator[Any], Call], Awaitable[Reply]]
ServerStream = Callable[[Any, Call], AsyncIterator[Reply]]


class Service(Protocol):
    """What can be served: the methods of one service of the contract, by their names there."""

    @property
    def full_name(self) -> str:
        """Name the service as the contract does: `nomemory.v1.QueryService`."""

    def needs(self) -> Mapping[str, Need]:
        """Say what each method needs of its caller. A method that is not named here cannot be served."""

    def unary_methods(self) -> Mapping[str, Unary]:
        """Return the methods that take one request."""

    def client_stream_methods(self) -> Mapping[str, ClientStream]:
        """Return the methods that take a stream of requests."""

    def server_stream_methods(self) -> Mapping[str, ServerStream]:
        """Return the methods that answer with a stream."""
