"""Keep the order of the file for messages that have the same user and timestamp.

The server sorts messages by time, then by id. Many files have times in whole seconds, and their ids do not reflect the
order of the messages.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from cachetools import LRUCache

from nomemory.importing.message_builder import derive_message_id
from nomemory.importing.record import AcceptedMessage, ParseResult
from nomemory.v1 import message_pb2

CHANGED_ID_PREFIX: Final = "z"
"""Prefix of changed ids. Ids that sort after it are also changed."""


_DIGITS: Final = 8


_ID_CHARS: Final = 128  # the contract's limit


_STATE_MAX: Final = 1 << 16


_Timestamp = tuple[str, int, int]
"""User id, seconds and nanoseconds."""


@dataclass(frozen=True, slots=True)
class _LastMessage:
    """The last message id at a user's timestamp, and the number of the user's messages at this timestamp so far."""

    message_id: str = ""
    count: int = 0


class FileOrder:
    """Changes message ids so that messages with the same user and time sort in file order.

    An id is kept if it sorts after the previous id. Otherwise it gets a prefix such as `z00000001_`, with the index of
    the message among the messages of the same user and time. Importing a file again produces the same ids, even if
    messages were appended to the file. Messages with the same id and time keep a common id. State is kept for the last
    65,536 timestamps and ids.
    """

    def __init__(self) -> None:
        self._latest: LRUCache[_Timestamp, _LastMessage] = LRUCache(_STATE_MAX)
        self._assigned: LRUCache[tuple[_Timestamp, str], str] = LRUCache(_STATE_MAX)

    def assign_ordered_id(self, item: ParseResult) -> ParseResult:
        """Return the next item of the file, with a changed id if necessary."""
        if not isinstance(item, AcceptedMessage):
            return item
        message = item.message
        timestamp = (message.user_id, message.ts.seconds, message.ts.nanos)
        assigned = self._assigned.get((timestamp, message.message_id))
        chosen = assigned or self._choose_message_id(timestamp, message.message_id, keeps_id=item.keeps_id)
        self._assigned[timestamp, message.message_id] = chosen
        return item if chosen == message.message_id else replace(item, message=_replace_message_id(message, chosen))

    def _choose_message_id(self, timestamp: _Timestamp, message_id: str, *, keeps_id: bool) -> str:
        latest = self._latest.get(timestamp, _LastMessage())
        keeps = keeps_id or latest.message_id < message_id < CHANGED_ID_PREFIX
        chosen = message_id if keeps else _add_index_prefix(latest.count, message_id)
        self._latest[timestamp] = _LastMessage(chosen, latest.count + 1)
        return chosen


def _add_index_prefix(index: int, message_id: str) -> str:
    prefixed = f"{CHANGED_ID_PREFIX}{index:0{_DIGITS}}_{message_id}"
    return (
        prefixed
        if len(prefixed) <= _ID_CHARS
        else f"{CHANGED_ID_PREFIX}{index:0{_DIGITS}}_{derive_message_id('i', message_id)}"
    )


def _replace_message_id(message: message_pb2.ChatMessage, message_id: str) -> message_pb2.ChatMessage:
    renamed = message_pb2.ChatMessage()
    renamed.CopyFrom(message)
    renamed.message_id = message_id
    return renamed
