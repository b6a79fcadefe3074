"""What a caller may do."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


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


def known_scopes(names: Iterable[str]) -> frozenset[Scope]:
    """Return the known scopes among names. Other names are ignored."""
    known = frozenset(Scope)
    return frozenset(Scope(name) for name in names if name in known)
