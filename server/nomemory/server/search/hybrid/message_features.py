"""The features of a message that the ranking uses: read once, and shared by all timelines."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from sys import intern
from typing import Final, NamedTuple

from nomemory.server.message import LoggedMessage
from nomemory.server.metadata_hashes import Entry
from nomemory.text.asking import ends_asking, only_asks
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
_WEIGHT: Final = 320
"""About how many bytes of memory the features of a message take, and their place in a dictionary."""
_ENTRY_BYTES: Final = 300
"""The same of each entry of its metadata, and of each name in it."""


class Features(NamedTuple):
    """The features of a message; a tuple, because a ranking makes many.

    Attributes:
        role: on whose side it stands, a number of `Role`.
        name: who spoke, if that is said; a tool is nobody, even if it has a name.
        conversation_id: its conversation, if it is of one.
        metadata: its metadata's entries.
        chars: how long it is.
        asks: whether it ends with a question.
        only_asks: whether nothing in it asserts anything.
        names: how the names, titles and figures in it begin.
        when: how far it says when something happened.
    """

    role: int
    name: str
    conversation_id: str
    metadata: frozenset[Entry]
    chars: int
    asks: bool
    only_asks: bool
    names: frozenset[str]
    when: float

    @property
    def weight(self) -> int:
        """About how many bytes of memory they take, with their place in a cache."""
        return _WEIGHT + _ENTRY_BYTES * (len(self.metadata) + len(self.names))


class KeptFeatures:
    """Reads messages, and keeps their features, until there is no more room: the content of a version never changes.

    It does not know which versions still exist, or whose they are: callers ask for messages that the log just gave.
    Threads may share it.

    Args:
        most_bytes: about how much memory they may take together; when it is used up, all are forgotten.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._kept: dict[int, Features] = {}
        self._changing = threading.Lock()
        self.weight = 0

    def read(self, logged: Sequence[LoggedMessage]) -> list[Features]:
        """Return the features of messages."""
        known = map(self._kept.get, [message.sequence for message in logged])
        return [item or self._keep(message) for item, message in zip(known, logged, strict=True)]

    def _keep(self, logged: LoggedMessage) -> Features:
        features = features_of(logged)
        with self._changing:
            if self.weight + features.weight > self._most_bytes:
                self._kept.clear()
                self.weight = 0
            if logged.sequence not in self._kept:  # another thread may have read it meanwhile
                self.weight += features.weight
            self._kept[logged.sequence] = features
        return features


def features_of(logged: LoggedMessage) -> Features:
    """Read the features of a message."""
    chat = message_pb2.ChatMessage.FromString(logged.wire)
    content = chat.content
    words = without_attachments(content)
    beginning_words = words[:_CONTENT_CHARS]
    return Features(
        chat.role,
        "" if chat.role == message_pb2.ROLE_TOOL else intern(chat.name),
        intern(chat.conversation_id),
        frozenset(chat.metadata.items()) if chat.metadata else _NO_METADATA,
        len(content),
        asks=ends_asking(words.rstrip()[-_ENDING_CHARS:]),
        only_asks=only_asks(beginning_words),
        names=_names(beginning_words),
        when=tells_when(beginning_words),
    )


def content_of(logged: LoggedMessage) -> str:
    """Return what was said. It is not kept: of the messages of a ranking few are read."""
    return message_pb2.ChatMessage.FromString(logged.wire).content


def beginning_of(logged: LoggedMessage) -> str:
    """Return what was said; of a long message, its beginning."""
    return content_of(logged)[:_CONTENT_CHARS]


def _names(words: str) -> frozenset[str]:
    found = _NAMES_SOMETHING.findall(words)
    return frozenset(intern(beginning(name.strip('"“'))) for name in found) if found else _NO_NAMES
