"""The caller of a call."""

from __future__ import annotations

from dataclasses import dataclass

from nomemory.server.identity.namespace import Namespace
from nomemory.server.identity.scope import READS, Scope


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

    def stored(self, user_id: str) -> str:
        """Return the id under which the server stores a user whom this caller names."""
        return self.namespace.stored(user_id) if self.namespace else user_id


LOCAL = Caller("local", frozenset(Scope))
"""Whoever reaches a loopback server that checks no credentials: this machine trusts itself."""
