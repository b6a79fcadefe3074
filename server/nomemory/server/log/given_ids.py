"""What ids the log makes are, whatever keeps it: numbers in a row, from the first one that a batch got."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from nomemory.server.faults import Fault, Reason, Violation, bad_field
from nomemory.server.message import Message
from nomemory.server.message_id import id_of

NUMBER_BYTES: Final = 16
"""How a number is kept: big-endian, in so many bytes."""


class Named(NamedTuple):
    """A batch in which every message has an id, and what to remember of its request.

    `requests` has the user, the digest of the request's id, the first number and the size of the batch.
    """

    messages: Sequence[Message]
    requests: Sequence[tuple[str, bytes, bytes, int]] = ()


def digest_of(request_id: str) -> bytes:
    """Return the digest of a request's id."""
    return hashlib.blake2b(request_id.encode(), digest_size=16).digest()


def nameless_users(messages: Sequence[Message]) -> set[str]:
    """Return the users of the messages that have no id."""
    return {message.user_id for message in messages if not message.message_id}


def numbered(messages: Sequence[Message], first: Mapping[str, int]) -> list[Message]:
    """Name the messages by their places, counted from the first number of their user."""
    return [
        message if message.message_id else message._replace(message_id=id_of(first[message.user_id] + place))
        for place, message in enumerate(messages)
    ]


def to_remember(users: set[str], digest: bytes, first: int, size: int) -> list[tuple[str, bytes, bytes, int]]:
    """Return what is remembered of a request, for each user who got ids."""
    encoded = first.to_bytes(NUMBER_BYTES, "big")
    return [(user, digest, encoded, size) for user in sorted(users)]


def reused() -> Fault:
    """Return the fault of a request id that was another batch's."""
    violation = Violation("request_id", "was used for a batch of another size")
    return bad_field(Reason.ERROR_REASON_MESSAGE_CONFLICT, violation)
