"""Ranking features of a message, computed once per version and cached."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from sys import intern
from typing import Final, NamedTuple

from nomemory.server.message import LoggedMessage
from nomemory.server.metadata_hashes import Entry
from nomemory.text.attachments import remove_attachments
from nomemory.text.names import get_name_prefix
from nomemory.text.question_detection import contains_only_questions, ends_in_question
from nomemory.text.temporal_cues import compute_temporal_cue_score
from nomemory.v1 import message_pb2

_NO_METADATA: Final[frozenset[Entry]] = frozenset()
_NO_NAMES: Final[frozenset[str]] = frozenset()
_ENDING_CHARS: Final = 64
_NAME_OR_NUMBER: Final = re.compile(
    r"(?<=[a-z,;:'’] )[\"“]?[A-Z][A-Za-z]{2,}|[\"“《「][^\"”》」]{2,100}[\"”》」]|\d"
    # a capitalized word in a sentence, a quoted title, or a digit
)
_MAX_CONTENT_CHARS: Final = 2_000
"""Characters from the start of a message that are analyzed, in addition to its end."""
_FEATURES_BYTES: Final = 320
"""Estimated memory of the features of a message, including its cache entry."""
_ENTRY_BYTES: Final = 300
"""Estimated memory of a metadata entry or a name."""


class MessageFeatures(NamedTuple):
    """Ranking features of a message.

    The class is a tuple instead of a dataclass, because a ranking creates many instances.

    Attributes:
        role: the role of the author, as a number of the enum `Role`.
        name: the name of the author; empty for tools and for authors without a name.
        conversation_id: the id of the conversation; empty for a message without a conversation.
        chars: the length of the message content, in characters.
        contains_only_questions: whether the message contains a question and no statement.
        names: normalized prefixes of the names, titles and numbers in the message.
        time_cue: how clearly the message states when something happened, 0 to 4/3.
    """

    role: int
    name: str
    conversation_id: str
    metadata: frozenset[Entry]
    chars: int
    ends_with_question: bool
    contains_only_questions: bool
    names: frozenset[str]
    time_cue: float

    @property
    def memory_bytes(self) -> int:
        """The estimated memory of the features and their cache entry, in bytes."""
        return _FEATURES_BYTES + _ENTRY_BYTES * (len(self.metadata) + len(self.names))


class FeatureCache:
    """A thread-safe cache of message features. The content of a version never changes, so entries do not expire.

    The cache does not check whether a version exists or who owns it. Callers must therefore pass messages that they
    have just read from the message log.

    Args:
        max_bytes: the maximum estimated memory; the cache is cleared before it would exceed the maximum.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._features: dict[int, MessageFeatures] = {}
        self._lock = threading.Lock()
        self.memory_bytes = 0

    def read_features(self, logged: Sequence[LoggedMessage]) -> list[MessageFeatures]:
        """Return the features of each message, from the cache if possible."""
        cached = map(self._features.get, [message.sequence for message in logged])
        return [item or self._extract_and_cache(message) for item, message in zip(cached, logged, strict=True)]

    def _extract_and_cache(self, logged: LoggedMessage) -> MessageFeatures:
        features = extract_features(logged)
        with self._lock:
            if self.memory_bytes + features.memory_bytes > self._max_bytes:
                self._features.clear()
                self.memory_bytes = 0
            if logged.sequence not in self._features:  # another thread may have added it
                self.memory_bytes += features.memory_bytes
            self._features[logged.sequence] = features
        return features


def extract_features(logged: LoggedMessage) -> MessageFeatures:
    """Decode a message and return its features."""
    chat = message_pb2.ChatMessage.FromString(logged.wire)
    content = chat.content
    text = remove_attachments(content)
    leading_text = text[:_MAX_CONTENT_CHARS]
    return MessageFeatures(
        chat.role,
        "" if chat.role == message_pb2.ROLE_TOOL else intern(chat.name),
        intern(chat.conversation_id),
        frozenset(chat.metadata.items()) if chat.metadata else _NO_METADATA,
        len(content),
        ends_with_question=ends_in_question(text.rstrip()[-_ENDING_CHARS:]),
        contains_only_questions=contains_only_questions(leading_text),
        names=_extract_names(leading_text),
        time_cue=compute_temporal_cue_score(leading_text),
    )


def decode_content(logged: LoggedMessage) -> str:
    """Decode the content of a message.

    Decoded contents are not cached, because a ranking needs the contents of only a few messages.
    """
    return message_pb2.ChatMessage.FromString(logged.wire).content


def decode_leading_content(logged: LoggedMessage) -> str:
    """Return the first 2,000 characters of a message's content."""
    return decode_content(logged)[:_MAX_CONTENT_CHARS]


def _extract_names(text: str) -> frozenset[str]:
    matches = _NAME_OR_NUMBER.findall(text)
    return frozenset(intern(get_name_prefix(name.strip('"“'))) for name in matches) if matches else _NO_NAMES
