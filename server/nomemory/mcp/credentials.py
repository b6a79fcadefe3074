"""Credentials of MCP connections, and the users they are bound to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from nomemory.client import requests

Metadata = tuple[tuple[str, str | bytes], ...]

_INGEST: Final = "ingest"


_EVERY_SCOPE: Final = frozenset({_INGEST, "query", "recall"})


@dataclass(frozen=True, slots=True)
class Credential:
    """Metadata and user id of a connection. Without a user id, the token determines the user."""

    metadata: Metadata = field(default=(), repr=False)
    user_id: str | None = None


@dataclass(frozen=True, slots=True)
class BoundCaller:
    """An authenticated caller that is bound to one user."""

    user_id: str
    metadata: Metadata = field(repr=False)
    scopes: frozenset[str]

    @property
    def may_write(self) -> bool:
        """Whether the caller may store messages."""
        return _INGEST in self.scopes

    @property
    def recall_metadata(self) -> Metadata:
        """Metadata for a recall, with the user id."""
        return (*self.metadata, *requests.user_metadata(self.user_id))


async def unauthenticated_caller(user_id: str) -> BoundCaller:
    """Return a caller for a server without authentication."""
    return BoundCaller(user_id, (), _EVERY_SCOPE)


class UserNotNamedError(Exception):
    """A service credential was used without a user id."""
