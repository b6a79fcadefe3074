"""Whose memory a connection reads, and with which credentials."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from nomemory.client import requests

Metadata = tuple[tuple[str, str | bytes], ...]

_INGEST: Final = "ingest"


_EVERY_SCOPE: Final = frozenset({_INGEST, "query", "recall"})


@dataclass(frozen=True, slots=True)
class Credential:
    """What a connection shows to the server: metadata, and the user whom it names; None: whose token it is."""

    metadata: Metadata = field(default=(), repr=False)
    user_id: str | None = None


@dataclass(frozen=True, slots=True)
class BoundCaller:
    """A caller bound to one user, as the server sees it. Every request is built from it alone."""

    user_id: str
    metadata: Metadata = field(repr=False)
    scopes: frozenset[str]

    @property
    def may_write(self) -> bool:
        """Whether the server lets this caller store messages."""
        return _INGEST in self.scopes

    @property
    def recall_metadata(self) -> Metadata:
        """The metadata of a recall, which names the user there."""
        return (*self.metadata, *requests.bound_to(self.user_id))


async def trusted(user_id: str) -> BoundCaller:
    """Return a caller of a server that asks for no credentials: nobody has to ask it who this is."""
    return BoundCaller(user_id, (), _EVERY_SCOPE)


class UserNotNamedError(Exception):
    """The credentials are a service's, and the connection does not say for which user it reads."""
