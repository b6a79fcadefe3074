"""Requests and replies of a caller in a namespace: where user ids get the prefix, and where they lose it."""

from __future__ import annotations

from typing import Final

from google.protobuf.message import Message as ProtoMessage

from nomemory.server.identity.namespace import Namespace
from nomemory.server.identity.user_fields import USER_ID, fields_named, has_fields_named

_USERS: Final = frozenset({USER_ID})
_SHARED_COUNTERS: Final = frozenset({"sequence", "checkpoint", "texts_embedded"})
"""Counters of the whole server: two looks at one would tell how much others wrote in between."""

_REWRITTEN: Final = _USERS | _SHARED_COUNTERS


def store_users(request: ProtoMessage, namespace: Namespace) -> None:
    """Put the prefix before every user id in a request."""
    for owner, name in fields_named(request, _USERS):
        setattr(owner, name, namespace.stored(getattr(owner, name)))


def show_users(raw: bytes, reply_type: type[ProtoMessage], namespace: Namespace) -> bytes:
    """Return a reply without the prefix of its user ids, and without counters that other namespaces move.

    Raises:
        ForeignUserError: it names a user outside of the namespace.
    """
    if not has_fields_named(reply_type, _REWRITTEN):
        return raw
    reply = reply_type.FromString(raw)
    for owner, name in fields_named(reply, _USERS):
        setattr(owner, name, namespace.shown(getattr(owner, name)))
    for owner, name in fields_named(reply, _SHARED_COUNTERS):
        owner.ClearField(name)
    return reply.SerializeToString()
