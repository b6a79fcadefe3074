"""Binds a recall to one user. The user follows from the caller alone, before the request is read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from nomemory.server.faults import Fault, Reason
from nomemory.server.identity.caller import LOCAL, Caller, Metadata, Scope, values_of
from nomemory.server.identity.namespace import own_part

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
