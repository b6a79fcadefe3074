"""The content of a chat message that may come in parts: its text, and a note of what is not text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

NON_TEXT: Final = "non_text_parts"
"""The metadata key that names the kinds of parts that were left out."""


@dataclass(frozen=True, slots=True)
class Content:
    """The text of a message, and the kinds of its parts that are not text."""

    text: str
    non_text: tuple[str, ...] = ()

    @property
    def metadata(self) -> dict[str, str]:
        """The note for a message's metadata."""
        return {NON_TEXT: ", ".join(self.non_text)} if self.non_text else {}


def read_content(content: object) -> Content:
    """Read a text or a list of parts. Texts are joined by line breaks; anything else is named by its kind."""
    parts = content if isinstance(content, list) else [content]
    texts: list[str] = []
    others: list[str] = []
    for part in parts:
        text = _text(part)
        if text is None:
            others.append(_kind(part))
        elif text:
            texts.append(text)
    return Content("\n".join(texts), tuple(others))


def _text(part: object) -> str | None:
    """Return the text of a part; None if it is of another kind."""
    if part is None:
        return ""
    if isinstance(part, str):
        return part
    if not isinstance(part, dict):
        return None
    for key in ("text", "refusal"):
        value = part.get(key)
        if isinstance(value, dict):
            value = value.get("value")
        if isinstance(value, str):
            return value
    return None


def _kind(part: object) -> str:
    if isinstance(part, dict):
        return str(part.get("type") or part.get("content_type") or "object")
    return type(part).__name__
