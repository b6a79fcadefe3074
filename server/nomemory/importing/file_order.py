"""Ids that keep the order of a file among messages of one user and one time.

Messages of a user are ordered by time and then by id. Files often have whole seconds, and a derived or random id says
nothing about which message came first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from cachetools import LRUCache

from nomemory.importing.message_builder import derived_id
from nomemory.importing.record import Accepted, ParseResult
from nomemory.v1 import message_pb2

RENAMED: Final = "z"
"""What a changed id begins with. What sorts after it is changed, too."""


_DIGITS: Final = 8


_ID_CHARS: Final = 128  # the contract's limit


_REMEMBERED: Final = 1 << 16


_Moment = tuple[str, int, int]
"""A user, and a time in seconds and nanoseconds."""


@dataclass(frozen=True, slots=True)
class _Latest:
    """The latest message id at one timestamp, and the number of messages there."""

    message_id: str = ""
    count: int = 0


class FileOrder:
    """Changes ids of one file where they would change its order.

    An id stays as it is if it sorts after the one before it. Otherwise it gets a prefix with its place among the
    messages of that user and time: `z00000001_…`. What becomes of a message depends on those before it and on nothing
    else. So a file gets the same ids again, and so does one that has grown at its end. Messages of one id and time
    stay one.

    It remembers the last 65,536 moments and as many ids, so its memory is bounded.
    """

    def __init__(self) -> None:
        self._latest: LRUCache[_Moment, _Latest] = LRUCache(_REMEMBERED)
        self._given: LRUCache[tuple[_Moment, str], str] = LRUCache(_REMEMBERED)

    def placed(self, item: ParseResult) -> ParseResult:
        """Return the next item of the file with an id that sorts after those before it, unless its id has to stay."""
        if not isinstance(item, Accepted):
            return item
        message = item.message
        moment = (message.user_id, message.ts.seconds, message.ts.nanos)
        known = self._given.get((moment, message.message_id))
        chosen = known or self._next(moment, message.message_id, keeps_id=item.keeps_id)
        self._given[moment, message.message_id] = chosen
        return item if chosen == message.message_id else replace(item, message=_renamed(message, chosen))

    def _next(self, moment: _Moment, own: str, *, keeps_id: bool) -> str:
        latest = self._latest.get(moment, _Latest())
        stays = keeps_id or latest.message_id < own < RENAMED
        chosen = own if stays else _numbered(latest.count, own)
        self._latest[moment] = _Latest(chosen, latest.count + 1)
        return chosen


def _numbered(place: int, own: str) -> str:
    numbered = f"{RENAMED}{place:0{_DIGITS}}_{own}"
    return numbered if len(numbered) <= _ID_CHARS else f"{RENAMED}{place:0{_DIGITS}}_{derived_id('i', own)}"


def _renamed(message: message_pb2.ChatMessage, message_id: str) -> message_pb2.ChatMessage:
    renamed = message_pb2.ChatMessage()
    renamed.CopyFrom(message)
    renamed.message_id = message_id
    return renamed
