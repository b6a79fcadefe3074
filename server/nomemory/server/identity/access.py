"""Access control: the one place that decides whether a call may go on.

A call is admitted by who makes it, before its request is looked at. A recall is then bound to one user, who follows
from the caller alone. Next the request is confined to the users whom that caller may read, before anything else in it
is looked at. A reply leaves with nothing of another namespace.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from google.protobuf.message import Message as ProtoMessage

from nomemory.server.faults import Fault, Reason
from nomemory.server.identity.caller import LOCAL, Caller, Metadata, Scope, values_of
from nomemory.server.identity.namespace import own_part
from nomemory.server.identity.user_fields import show_users, store_users, users_in

Peer = Callable[[], Mapping[str, Iterable[bytes]]]
"""Return the properties of the connection's other end, as gRPC's `auth_context` has them."""


class Authenticator(Protocol):
    """Finds out who calls, from what the call brings."""

    async def caller(self, metadata: Metadata, peer: Peer) -> Caller:
        """Return the caller.

        Raises:
            Fault: CREDENTIALS_MISSING, there are none; CREDENTIALS_INVALID, they are not good.
        """


USER_ID: Final = "x-user-id"
USER_ID_UTF8: Final = "x-user-id-bin"
"""The same in UTF-8: gRPC's text metadata is ASCII, user ids need not be."""

_UNUSABLE: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")

Identity = Literal["token", "act-as", "x-user-id"]


@dataclass(frozen=True, slots=True)
class BoundUser:
    """The stored id of a recall's user, and what vouches for it. `x-user-id`: nothing does, this machine says so."""

    user_id: str
    identity: Identity


def bind_user(caller: Caller, metadata: Metadata, id_max_chars: int) -> BoundUser:
    """Settle the user.

    Raises:
        Fault: OTHER_USER, a user's token names another one; SCOPE_MISSING, a service without `act-as`;
            USER_NOT_BOUND, not exactly one usable user is named.
    """
    if caller.user_id is not None:
        refuse_other_name(caller, metadata)
        return BoundUser(caller.stored(caller.user_id), "token")
    if Scope.ACT_AS not in caller.scopes:
        raise Fault(Reason.ERROR_REASON_SCOPE_MISSING, "naming a user needs the scope `act-as`")
    return BoundUser(_one_user(caller, metadata, id_max_chars), "x-user-id" if caller is LOCAL else "act-as")


def refuse_other_name(caller: Caller, metadata: Metadata) -> None:
    """Refuse a user's token that comes with another user's id in metadata.

    Raises:
        Fault: OTHER_USER.
    """
    if any(_text(value) != caller.user_id for value in _named(metadata)):
        raise Fault(Reason.ERROR_REASON_OTHER_USER, "this token is bound to another user")


def is_usable_id(stored: str, max_chars: int) -> bool:
    """Return whether a text can be a stored user's id.

    It is not blank and has no control characters and no lone surrogates. The limit is for what follows a namespace.
    """
    return bool(stored.strip()) and len(own_part(stored)) <= max_chars and _UNUSABLE.search(stored) is None


def _one_user(caller: Caller, metadata: Metadata, id_max_chars: int) -> str:
    named = [caller.stored(_text(value)) for value in _named(metadata)]
    if len(named) != 1 or not is_usable_id(named[0], id_max_chars):
        raise Fault(Reason.ERROR_REASON_USER_NOT_BOUND, f"name one user in `{USER_ID}` metadata")
    return named[0]


def _named(metadata: Metadata) -> list[str | bytes]:
    return [*values_of(metadata, USER_ID), *values_of(metadata, USER_ID_UTF8)]


def _text(value: str | bytes) -> str:
    if isinstance(value, str):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return ""


@dataclass(frozen=True, slots=True)
class Need:
    """What a method needs of its caller: one of `scopes`; with `binds_user` also the one user that it will read.

    A method that `is_for_everybody` needs no scope. It reads nothing of any user and answers every caller alike.
    One that `is_bulk` may need long: where a client sets no deadline, such a call has that of an import. Any other has
    the server's default there, and at least `least_deadline_s` seconds.
    """

    scopes: frozenset[Scope]
    binds_user: bool = False
    is_for_everybody: bool = False
    is_bulk: bool = False
    least_deadline_s: float = 0.0

    @property
    def writes(self) -> bool:
        """Whether the method changes the log: what it has done cannot be refused any more."""
        return Scope.INGEST in self.scopes


FOR_EVERYBODY = Need(frozenset(), is_for_everybody=True)
"""The need of a method that whoever is let in may call."""


@dataclass(frozen=True, slots=True)
class Admission:
    """A call that may go on. `bound` is set where the method needs it; `reads_users` says whether it reads of any."""

    caller: Caller
    bound: BoundUser | None = None
    reads_users: bool = True

    def facts(self) -> dict[str, str]:
        """Return what a log line may say: what proves the bound user, never who that is."""
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
        if not (need.is_for_everybody or need.scopes & caller.scopes):
            raise Fault(Reason.ERROR_REASON_SCOPE_MISSING, f"this method needs the scope {_either(need.scopes)}")
        if need.binds_user:
            return Admission(caller, bind_user(caller, metadata, self._id_max_chars))
        if caller.user_id is not None:
            refuse_other_name(caller, metadata)
        return Admission(caller, reads_users=not need.is_for_everybody)


def confine(admission: Admission, request: ProtoMessage) -> None:
    """Refuse a request that names another user than the one whose token it came with, or, where that matters, none.

    What is not refused names its users as they are stored from here on.

    Raises:
        Fault: OTHER_USER.
    """
    caller = admission.caller
    if caller.user_id is not None and admission.reads_users:
        _refuse_other_users(caller.user_id, request, is_bound=admission.bound is not None)
    if caller.namespace is not None:
        store_users(request, caller.namespace)


def release(admission: Admission, reply_type: type[ProtoMessage], raw: bytes) -> bytes:
    """Return a reply as its caller may see it. Only where the caller has a namespace is it looked at.

    Raises:
        ForeignUserError: it names a user outside of the caller's namespace.
    """
    namespace = admission.caller.namespace
    return raw if namespace is None else show_users(raw, reply_type, namespace)


def _refuse_other_users(own: str, request: ProtoMessage, *, is_bound: bool) -> None:
    named = list(users_in(request))
    if any(user_id != own for user_id in named) or not (named or is_bound):
        raise Fault(Reason.ERROR_REASON_OTHER_USER, "this token is bound to another user")


def _either(scopes: frozenset[Scope]) -> str:
    return " or ".join(f"`{scope}`" for scope in sorted(scopes))
