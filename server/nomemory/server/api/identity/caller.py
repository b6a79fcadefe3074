"""Who calls, what the caller may do, and the metadata in which a call says so."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from nomemory.server.api.identity.namespace import Namespace


class Scope(StrEnum):
    """A kind of call. A key, a token or a certificate carries a set of them."""

    INGEST = "ingest"
    """Write and delete messages of any user."""
    QUERY = "query"
    """Read messages: a service those of any user, a user's token its own."""
    RECALL = "recall"
    """Ask questions about a user."""
    ADMIN = "admin"
    """See the state of the whole server."""
    ACT_AS = "act-as"
    """Say, as a service, on whose behalf a recall is made."""


READS = frozenset({Scope.QUERY, Scope.RECALL})
"""The scopes that a user's token can have: reads of that user."""


def parse_scopes(names: Iterable[str]) -> frozenset[Scope]:
    """Return the known scopes among names. Other names are ignored."""
    known = frozenset(Scope)
    return frozenset(Scope(name) for name in names if name in known)


@dataclass(frozen=True, slots=True)
class Caller:
    """The authenticated peer of a call.

    `name` is what logs say: the name of a key or of a certificate's entry, never a user's id. `user_id` is set for a
    user's own token, which reads that user and nobody else; a service has None. With `namespace` the caller knows
    that namespace's users only, by their ids without the prefix; `user_id` is such an id, too.

    Raises:
        ValueError: a user's token with more than reads.
    """

    name: str
    scopes: frozenset[Scope]
    user_id: str | None = None
    namespace: Namespace | None = None

    def __post_init__(self) -> None:
        if self.user_id is not None and not self.scopes <= READS:
            raise ValueError("a user's token can only read")

    def stored_id(self, user_id: str) -> str:
        """Return the id under which the server stores a user whom this caller names."""
        return self.namespace.stored_id(user_id) if self.namespace else user_id


LOCAL = Caller("local", frozenset(Scope))
"""Whoever reaches a loopback server that checks no credentials: this machine trusts itself."""


Metadata = Sequence[tuple[str, str | bytes]]
"""Pairs in the order sent; a key may come more than once. Values of keys that end in `-bin` are bytes."""


def values_of(metadata: Metadata, key: str) -> list[str | bytes]:
    """Return every value of a key."""
    return [value for name, value in metadata if name == key]
