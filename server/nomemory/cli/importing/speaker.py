"""The roles that sources know, and those that messages have."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from nomemory.client.messages import RoleName

ORIGINAL_ROLE: Final = "original_role"
"""The metadata key that marks a message whose role was another one in the source."""

ROLES: Final[Mapping[str, RoleName]] = MappingProxyType(
    {
        "user": "user",
        "assistant": "assistant",
        "system": "system",
        "developer": "system",
        "tool": "tool",
        "function": "tool",
    }
)


def speaker(role: str) -> tuple[RoleName | None, dict[str, str]]:
    """Return the role of a message (None: nothing corresponds to it), and the mark that keeps the source's own word."""
    word = role.lower().removeprefix("role_")
    known = ROLES.get(word)
    return known, {} if known in {word, None} else {ORIGINAL_ROLE: word}
