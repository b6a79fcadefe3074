"""Descriptions of pictures and files that importers append to a message."""

from __future__ import annotations

from typing import Final

_ATTACHMENT: Final = "\n["
"""What stands after it, in a line of its own, describes something that came with the words."""


def without_attachments(content: str) -> str:
    """Return what was said, without descriptions of what came with it."""
    return content.partition(_ATTACHMENT)[0]
