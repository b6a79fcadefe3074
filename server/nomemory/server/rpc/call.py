"""A call as a service sees it, and what a service offers to be called.

The id of a call: the client's own if it can be logged, else a random one. It comes back in trailing metadata.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from secrets import token_hex
from typing import Any, Protocol, TypeAlias

import grpc
from google.protobuf.message import Message as ProtoMessage

from nomemory.server.faults import Fault, Reason
from nomemory.server.identity.access import UNADMITTED, Admission, Need
from nomemory.server.identity.caller import Metadata
from nomemory.server.identity.namespace import Namespace

Reply = bytes | ProtoMessage
"""A reply as a message, or as its bytes."""


@dataclass(frozen=True, slots=True)
class Call:
    """An admitted call.

    Attributes:
        request_id: names the call in logs and in trailing metadata.
        deadline: when the call ends at the latest, in the event loop's time.
        admission: who calls, and which user a recall is bound to.
    """

    request_id: str
    deadline: float
    admission: Admission = UNADMITTED

    @property
    def namespace(self) -> Namespace | None:
        """The namespace of the caller, whose users are all that the call may learn of; None: all users."""
        return self.admission.caller.namespace

    @property
    def user_prefix(self) -> str:
        """What the stored ids of all users begin with of whom the call may learn; empty: all users.

        A method whose request names no user passes it on to what it counts or lists.
        """
        return self.namespace.prefix if self.namespace else ""

    def remaining_s(self) -> float:
        """Return the seconds that are left until the deadline; negative once it has passed."""
        return self.deadline - asyncio.get_running_loop().time()

    def bound_user(self) -> str:
        """Return the one user whom this call may read. For methods whose need has `binds_user`.

        Raises:
            Fault: USER_NOT_BOUND, the call was admitted without a user.
        """
        if self.admission.bound is None:
            raise Fault(Reason.ERROR_REASON_USER_NOT_BOUND, "this call is bound to no user")
        return self.admission.bound.user_id


# Any: each method takes the request type of its own RPC, which the service's descriptor names at run time.
Unary = Callable[[Any, Call], Awaitable[Reply]]
ClientStream = Callable[[AsyncIterator[Any], Call], Awaitable[Reply]]
ServerStream = Callable[[Any, Call], AsyncIterator[Reply]]


@dataclass(frozen=True, slots=True)
class ServedMethod:
    """A method of a service: what it needs of its caller, and what answers it, of the kind that the contract says."""

    need: Need
    answer: Unary | ClientStream | ServerStream


class Service(Protocol):
    """A service of the contract that can be served."""

    @property
    def full_name(self) -> str:
        """The name in the contract: `nomemory.v1.QueryService`."""

    def methods(self) -> Mapping[str, ServedMethod]:
        """Return the methods by their short names. The server does not start if one of the contract is missing."""


# Any: a handler's request and reply types are those of its own RPC.
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"

_CURRENT: ContextVar[Call | None] = ContextVar("nomemory_call", default=None)


def current_call() -> Call | None:
    """Return the call that is being answered, for handlers and a host's interceptors.

    None until it is admitted, and None in health and reflection. gRPC runs each call in a task of its own, so no call
    sees another one's.
    """
    return _CURRENT.get()


def set_current_call(call: Call | None) -> None:
    """Note that a call was admitted; None: that none is yet, where a task answers several, one after the other."""
    _CURRENT.set(call)


REQUEST_ID = "x-request-id"
_RANDOM_BYTES = 13
_USABLE = re.compile(r"[\x21-\x7e]{1,128}")


def request_id_of(metadata: Metadata) -> str:
    """Return the client's id where it is 1 to 128 visible ASCII characters, else 26 random hexadecimal digits."""
    own = dict(metadata).get(REQUEST_ID, "")
    return own if isinstance(own, str) and _USABLE.fullmatch(own) else token_hex(_RANDOM_BYTES)
