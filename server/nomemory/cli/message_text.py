"""The texts of a message as a terminal shows them: who spoke, and what was said with its matches marked."""

from __future__ import annotations

import zlib
from typing import Final

from rich.text import Text

from nomemory.cli.printable import one_line, printable
from nomemory.client.messages import role_name
from nomemory.v1 import message_pb2, query_service_pb2

LONG_CHARS: Final = 400
"""Where a message counts as long: it is then cut, or shown as its snippet."""

_ROLE_STYLES: Final = {
    message_pb2.ROLE_USER: "bold cyan",
    message_pb2.ROLE_ASSISTANT: "bold green",
    message_pb2.ROLE_SYSTEM: "bold magenta",
    message_pb2.ROLE_TOOL: "bold yellow",
}
_NAME_STYLES: Final = ("bold cyan", "bold green", "bold blue", "bold magenta", "bold yellow")
_MATCH: Final = "bold black on bright_yellow"


def speaker(message: message_pb2.ChatMessage) -> Text:
    """Return who spoke: the name in a colour of its own, else the role."""
    if message.name:
        style = _NAME_STYLES[zlib.crc32(message.name.encode()) % len(_NAME_STYLES)]
        return Text(one_line(message.name), style=style)
    return Text(role_name(message.role), style=_ROLE_STYLES.get(message.role, "bold"))


def content(message: message_pb2.ChatMessage, highlight: query_service_pb2.Highlight | None, *, full: bool) -> Text:
    """Return what was said, with the matches marked. A long message is cut to its snippet or its beginning."""
    text = Text(printable(message.content))
    for span in highlight.spans if highlight is not None else ():
        text.stylize(_MATCH, span.start, span.end)
    if full or len(text) <= LONG_CHARS:
        return text
    start, end = (highlight.snippet.start, highlight.snippet.end) if highlight is not None else (0, LONG_CHARS)
    return _stretch(text, start, end or LONG_CHARS)


def _stretch(text: Text, start: int, end: int) -> Text:
    before, after = "…" if start else "", f"… ({len(text):,} characters)"
    return Text.assemble((before, "dim"), text[start:end], (after, "dim"))
