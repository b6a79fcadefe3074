"""Binding of a recall to one user, determined from the caller and the metadata."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from nomemory.server.api.identity.caller import LOCAL, Caller, Metadata, Scope, get_metadata_values
from nomemory.server.api.identity.namespace import remove_namespace_prefix
from nomemory.server.faults import Fault, Reason
from nomemory.server.message import ID_MAX_CHARS

USER_ID: Final = "x-user-id"
USER_ID_UTF8: Final = "x-user-id-bin"
"""The metadata key of a user id in UTF-8. Text metadata of gRPC is limited to ASCII."""

_FORBIDDEN_CHARS: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")

Identity = Literal["token", "act-as", "x-user-id"]


@dataclass(frozen=True, slots=True)
class BoundUser:
    """The user whose messages a call may read.

    Attributes:
        user_id: the user id with the namespace prefix.
        identity: the source of the user id: `token` for the user's own token, `act-as` for the metadata of a service
            with the scope `act-as`, `x-user-id` for the metadata of a local caller without credentials.
    """

    user_id: str
    identity: Identity


def bind_user(caller: Caller, metadata: Metadata) -> BoundUser:
    """Return the user that a recall is bound to.

    Raises:
        Fault: OTHER_USER, the metadata of a user token contains another user's id; SCOPE_MISSING, a service lacks the
            scope `act-as`; USER_NOT_BOUND, the metadata does not contain exactly one valid user id.
    """
    if caller.user_id is not None:
        reject_other_user_id(caller, metadata)
        return BoundUser(caller.to_stored_id(caller.user_id), "token")
    if Scope.ACT_AS not in caller.scopes:
        raise Fault(Reason.ERROR_REASON_SCOPE_MISSING, "recalls on behalf of users require the scope `act-as`")
    user_ids = [caller.to_stored_id(user_id) for user_id in _read_user_ids(metadata)]
    if len(user_ids) != 1 or not is_valid_user_id(user_ids[0]):
        raise Fault(Reason.ERROR_REASON_USER_NOT_BOUND, f"name one user in `{USER_ID}` metadata")
    return BoundUser(user_ids[0], "x-user-id" if caller is LOCAL else "act-as")


def reject_other_user_id(caller: Caller, metadata: Metadata) -> None:
    """Raise a fault if the caller has a user token and the metadata contains another user's id.

    Raises:
        Fault: OTHER_USER.
    """
    if any(user_id != caller.user_id for user_id in _read_user_ids(metadata)):
        raise Fault(Reason.ERROR_REASON_OTHER_USER, "this token is bound to another user")


def is_valid_user_id(stored: str) -> bool:
    """Return whether a text is a valid stored user id.

    A valid user id is not blank, and has no control characters and no lone surrogates. Without its namespace prefix, a
    valid user id has at most `ID_MAX_CHARS` characters.
    """
    if not stored.strip() or _FORBIDDEN_CHARS.search(stored):
        return False
    return len(remove_namespace_prefix(stored)) <= ID_MAX_CHARS


def _read_user_ids(metadata: Metadata) -> list[str]:
    return [
        _decode_text(value)
        for value in (*get_metadata_values(metadata, USER_ID), *get_metadata_values(metadata, USER_ID_UTF8))
    ]


def _decode_text(value: str | bytes) -> str:
    """Decode a metadata value, or return an empty string if the value is not UTF-8."""
    if isinstance(value, str):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return ""
