"""Credentials of MCP connections, and the users they are bound to."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from nomemory.client import requests

Metadata = tuple[tuple[str, str | bytes], ...]


class ToolScope(StrEnum):
    """A scope that a tool requires."""

    QUERY = "query"
    RECALL = "recall"
    INGEST = "ingest"


_TOOL_SCOPES: Final = frozenset(ToolScope)
_ACT_AS: Final = "act-as"
"""Scope that a service needs to recall for a user whom it specifies."""


@dataclass(frozen=True, slots=True)
class Credential:
    """Metadata and user id of a connection; if the user id is empty, the token determines the user."""

    metadata: Metadata = field(default=(), repr=False)
    user_id: str | None = None


@dataclass(frozen=True, slots=True)
class BoundCaller:
    """An authenticated caller that is bound to one user."""

    user_id: str
    metadata: Metadata = field(repr=False)
    scopes: frozenset[ToolScope]

    @property
    def recall_metadata(self) -> Metadata:
        """Metadata of a recall, which includes the user id."""
        return (*self.metadata, *requests.build_user_metadata(self.user_id))


async def create_unauthenticated_caller(user_id: str) -> BoundCaller:
    """Return a caller for a server without authentication."""
    return BoundCaller(user_id, (), _TOOL_SCOPES)


def select_tool_scopes(granted: frozenset[str], *, user_token: bool) -> frozenset[ToolScope]:
    """Return the usable scopes of a credential. A service can recall only if it also has the scope `act-as`."""
    may_recall = user_token or _ACT_AS in granted
    return frozenset(scope for scope in ToolScope if scope in granted and (scope is not ToolScope.RECALL or may_recall))


class UserNotNamedError(Exception):
    """Raised if a service credential is used without a user id."""
