"""Callers, scopes and call metadata."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from nomemory.server.api.identity.namespace import Namespace


class Scope(StrEnum):
    """A permission that a credential grants to its owner."""

    INGEST = "ingest"
    """Write and delete the messages of any user."""
    QUERY = "query"
    """Read messages. Services may read any user, and user tokens only their own user."""
    RECALL = "recall"
    """Recall the memories of a user."""
    ADMIN = "admin"
    """Read the state of the whole server."""
    ACT_AS = "act-as"
    """Recall on behalf of any user, who is named in the metadata."""


READS = frozenset({Scope.QUERY, Scope.RECALL})
"""The scopes that a user token can grant."""


def parse_scopes(names: Iterable[str]) -> frozenset[Scope]:
    """Return the scopes with the given names, and ignore unknown names."""
    all_scopes = frozenset(Scope)
    return frozenset(Scope(name) for name in names if name in all_scopes)


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated caller.

    Attributes:
        name: the name of the caller in logs, from its key or certificate entry, and never a user id.
        user_id: the only user that the owner of a user token may access, without the namespace prefix; None for a
            service.
        namespace: the namespace whose users the caller may access; None if the caller may access all users.

    Raises:
        ValueError: a user token has a scope that is not in `READS`.
    """

    name: str
    scopes: frozenset[Scope]
    user_id: str | None = None
    namespace: Namespace | None = None

    def __post_init__(self) -> None:
        if self.user_id is not None and not self.scopes <= READS:
            raise ValueError("a user token can only have read scopes")

    def to_stored_id(self, user_id: str) -> str:
        """Return the stored id, with the namespace prefix, for a user id that this caller sends."""
        return self.namespace.to_stored_id(user_id) if self.namespace else user_id


LOCAL = Caller("local", frozenset(Scope))
"""The caller on a loopback server without credentials. It has all scopes."""


Metadata = Sequence[tuple[str, str | bytes]]
"""Key-value pairs, in the order they were sent. Keys may repeat. Values of keys that end in `-bin` are bytes."""


def get_metadata_values(metadata: Metadata, key: str) -> list[str | bytes]:
    """Return all values of a key in call metadata."""
    return [value for name, value in metadata if name == key]
