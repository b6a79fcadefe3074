"""The one place where it is decided whether a call may go on.

A call is admitted by who makes it, before its request is looked at; then the request is confined to the users whom that
caller may read, before anything else in it is looked at.
"""

from __future__ import annotations

from dataclasses import dataclass

from google.protobuf.message import Message as ProtoMessage

from nomemory.server.faults import Fault, Reason
from nomemory.server.identity.authenticator import Authenticator, Peer
from nomemory.server.identity.binding import BoundUser, bind_user, refuse_other_name
from nomemory.server.identity.caller import Caller
from nomemory.server.identity.metadata import Metadata
from nomemory.server.identity.scope import Scope
from nomemory.server.identity.user_fields import users_in


@dataclass(frozen=True, slots=True)
class Need:
    """What a method needs of its caller: one of `scopes`; with `binds_user` also the one user that it will read.

    `is_bulk` marks a method that may need long: where a client sets no deadline, such a call has that of an import.
    """

    scopes: frozenset[Scope]
    binds_user: bool = False
    is_bulk: bool = False


@dataclass(frozen=True, slots=True)
class Admission:
    """A call that may go on. `bound` is set where the method needs it."""

    caller: Caller
    bound: BoundUser | None = None

    def facts(self) -> dict[str, str]:
        """Return what a log line may say of it: what vouches for the bound user, never who that is."""
        return {} if self.bound is None else {"identity": self.bound.identity}


UNADMITTED = Admission(Caller("nobody", frozenset()))
"""Of a call that did not come in from outside: it has no scopes and no user."""


class Access:
    """Admits calls.

    Args:
        authenticator: finds out who calls.
        id_max_chars: longest user id.
    """

    def __init__(self, authenticator: Authenticator, id_max_chars: int) -> None:
        self._authenticator = authenticator
        self._id_max_chars = id_max_chars

    async def caller(self, metadata: Metadata, peer: Peer) -> Caller:
        """Find out who calls.

        Raises:
            Fault: CREDENTIALS_MISSING or CREDENTIALS_INVALID.
        """
        return await self._authenticator.caller(metadata, peer)

    def admit(self, caller: Caller, need: Need, metadata: Metadata) -> Admission:
        """Admit a caller to a method.

        Raises:
            Fault: SCOPE_MISSING, OTHER_USER or USER_NOT_BOUND.
        """
        if not need.scopes & caller.scopes:
            raise Fault(Reason.ERROR_REASON_SCOPE_MISSING, f"this method needs the scope {_either(need.scopes)}")
        if need.binds_user:
            return Admission(caller, bind_user(caller, metadata, self._id_max_chars))
        if caller.user_id is not None:
            refuse_other_name(caller, metadata)
        return Admission(caller)


def confine(admission: Admission, request: ProtoMessage) -> None:
    """Refuse a request that names another user than the one whose token it came with, or, where that matters, none.

    Raises:
        Fault: OTHER_USER.
    """
    own = admission.caller.user_id
    if own is None:
        return
    named = list(users_in(request))
    if any(user_id != own for user_id in named) or not (named or admission.bound):
        raise Fault(Reason.ERROR_REASON_OTHER_USER, "this token is bound to another user")


def _either(scopes: frozenset[Scope]) -> str:
    return " or ".join(f"`{scope}`" for scope in sorted(scopes))
