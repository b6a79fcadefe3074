"""The features of a message that the ranking uses: read once, and shared by all timelines."""

from __future__ import annotations

import re
from collections import OrderedDict
from sys import intern
from typing import Final, NamedTuple

from nomemory.server.message import LoggedMessage
from nomemory.server.metadata_mark import Entry
from nomemory.text.asking import ends_asking
from nomemory.text.attachments import without_attachments
from nomemory.text.names import beginning
from nomemory.text.temporal_cues import tells_when
from nomemory.v1 import message_pb2

_NO_METADATA: Final[frozenset[Entry]] = frozenset()
_NO_NAMES: Final[frozenset[str]] = frozenset()
_ENDING_CHARS: Final = 64
_NAMES_SOMETHING: Final = re.compile(
    r"(?<=[a-z,;:'’] )[\"“]?[A-Z][A-Za-z]{2,}|[\"“《「][^\"”》」]{2,100}[\"”》」]|\d"  # a name amid a sentence, a title
)
_CONTENT_CHARS: Final = 2_000
"""How much of a message is looked at, besides its end: an hour's transcript takes no longer than a page."""
_OVERHEAD: Final = 700
"""About how many bytes a message takes in memory besides what the log holds of it."""
_ENTRY_BYTES: Final = 300
"""The same of each entry of its metadata, and of each name in it."""
_KEPT_BYTES: Final = 32_000_000
"""About how much memory the kept messages take."""


class Spoken(NamedTuple):
    """The features of a message; a tuple, because a ranking makes many.

    Attributes:
        logged: the version that the log holds.
        role: on whose side it stands, a number of `Role`.
        name: who spoke, if that is said; a tool is nobody, even if it has a name.
        conversation_id: its conversation, if it is of one.
        metadata: its metadata's entries.
        chars: how long it is.
        asks: whether it ends with a question.
        names: how the names, titles and figures in it begin.
        when: how far it says when something happened.
    """

    logged: LoggedMessage
    role: int
    name: str
    conversation_id: str
    metadata: frozenset[Entry]
    chars: int
    asks: bool
    names: frozenset[str]
    when: float

    @property
    def content(self) -> str:
        """Its beginning. Few messages of a ranking are read: kept beside its bytes it would take half as much again."""
        return message_pb2.ChatMessage.FromString(self.logged.wire).content[:_CONTENT_CHARS]

    @property
    def text(self) -> str:
        """What was said, without descriptions of what came with it."""
        return without_attachments(self.content)

    @property
    def weight(self) -> int:
        """About how many bytes of memory it takes."""
        return len(self.logged.wire) + _OVERHEAD + _ENTRY_BYTES * (len(self.metadata) + len(self.names))


class KeptSpoken:
    """Reads messages, and keeps the features that were used last: the content of a version never changes.

    It does not know which versions still exist, or whose they are: callers ask for messages that the log just gave.

    Args:
        most_bytes: about how much memory they may take together.
    """

    def __init__(self, most_bytes: int = _KEPT_BYTES) -> None:
        self._kept: OrderedDict[int, Spoken] = OrderedDict()
        self._room = most_bytes

    def read(self, logged: LoggedMessage) -> Spoken:
        """Return the features of a message."""
        known = self._kept.get(logged.sequence)
        if known is None:
            return self._keep(spoken(logged))
        self._kept.move_to_end(logged.sequence)
        return known

    def _keep(self, fresh: Spoken) -> Spoken:
        self._kept[fresh.logged.sequence] = fresh
        self._room -= fresh.weight
        while self._room < 0:
            _, oldest = self._kept.popitem(last=False)
            self._room += oldest.weight
        return fresh


def spoken(logged: LoggedMessage) -> Spoken:
    """Read the features of a message."""
    chat = message_pb2.ChatMessage.FromString(logged.wire)
    content = chat.content
    words = without_attachments(content)
    return Spoken(
        logged,
        chat.role,
        "" if chat.role == message_pb2.ROLE_TOOL else intern(chat.name),
        intern(chat.conversation_id),
        frozenset(chat.metadata.items()) if chat.metadata else _NO_METADATA,
        len(content),
        asks=ends_asking(words.rstrip()[-_ENDING_CHARS:]),
        names=_names(words[:_CONTENT_CHARS]),
        when=tells_when(words[:_CONTENT_CHARS]),
    )


def _names(words: str) -> frozenset[str]:
    found = _NAMES_SOMETHING.findall(words)
    return frozenset(intern(beginning(name.strip('"“'))) for name in found) if found else _NO_NAMES
