"""Access control: who calls, whether the call is allowed, and whose messages it may read.

The caller is authenticated and authorized before the request is read. A recall is bound to one user, who follows from
the caller and the metadata alone. Then the request is confined to the users whom the caller may name.
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
from nomemory.server.identity.user_fields import store_users, users_in

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
class RequiredScopes:
    """What a method requires of its caller.

    Attributes:
        any_of: the caller has at least one of these scopes.
        binds_user: the call is bound to exactly one user, who follows from the caller and the metadata.
        is_public: every authenticated caller may call it. It reads nothing of any user.
    """

    any_of: frozenset[Scope]
    binds_user: bool = False
    is_public: bool = False

    @property
    def writes(self) -> bool:
        """Whether the method changes the message log."""
        return Scope.INGEST in self.any_of


PUBLIC: Final = RequiredScopes(frozenset(), is_public=True)
"""For a method that every authenticated caller may call."""


class Access:
    """Authenticates callers and authorizes their calls.

    Args:
        authenticator: finds out who calls.
        id_max_chars: longest user id.
    """

    def __init__(self, authenticator: Authenticator, id_max_chars: int) -> None:
        self._authenticator = authenticator
        self._id_max_chars = id_max_chars

    async def authenticate(self, metadata: Metadata, peer: Peer) -> Caller:
        """Return the caller.

        Raises:
            Fault: CREDENTIALS_MISSING or CREDENTIALS_INVALID.
        """
        return await self._authenticator.caller(metadata, peer)

    def authorize(self, caller: Caller, required: RequiredScopes, metadata: Metadata) -> BoundUser | None:
        """Authorize a call; return the user to whom it is bound, None for a method that binds none.

        Raises:
            Fault: SCOPE_MISSING, OTHER_USER or USER_NOT_BOUND.
        """
        if not (required.is_public or required.any_of & caller.scopes):
            scopes = " or ".join(f"`{scope}`" for scope in sorted(required.any_of))
            raise Fault(Reason.ERROR_REASON_SCOPE_MISSING, f"this method needs the scope {scopes}")
        if required.binds_user:
            return bind_user(caller, metadata, self._id_max_chars)
        if caller.user_id is not None:
            refuse_other_name(caller, metadata)
        return None


def confine(request: ProtoMessage, caller: Caller, bound: BoundUser | None, required: RequiredScopes) -> None:
    """Refuse a request of a user's token that names another user, or none where the method needs one.

    With a namespace, the user ids in the request become the stored ones.

    Raises:
        Fault: OTHER_USER.
    """
    if caller.user_id is not None and not required.is_public:
        _refuse_other_users(caller.user_id, request, is_bound=bound is not None)
    if caller.namespace is not None:
        store_users(request, caller.namespace)


def _refuse_other_users(user_id: str, request: ProtoMessage, *, is_bound: bool) -> None:
    named = list(users_in(request))
    if any(name != user_id for name in named) or not (named or is_bound):
        raise Fault(Reason.ERROR_REASON_OTHER_USER, "this token is bound to another user")
