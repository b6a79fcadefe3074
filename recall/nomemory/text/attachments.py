"""Remove the descriptions of pictures and files that importers append to a message."""

from __future__ import annotations

from typing import Final

_ATTACHMENT: Final = "\n["
"""Prefix of a line that describes an attachment."""


def remove_attachments(content: str) -> str:
    """Return the part of a text before the first attachment description."""
    return content.partition(_ATTACHMENT)[0]
