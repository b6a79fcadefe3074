"""The texts that the log's messages are embedded by."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Final

from nomemory.server import wire
from nomemory.server.log.feed import ChangeFeed
from nomemory.server.vector.expected_points import Cut

_USERS_MAX: Final = 256
_DECODED_MAX: Final = 200


def living_texts(open_feed: Callable[[], ChangeFeed], cut: Cut) -> Iterator[list[str]]:
    """Give them, some at a time, of all messages that the log has when this begins."""
    with closing(open_feed()) as log:
        until, after = log.sequence(), ""
        while users := log.users(after, _USERS_MAX):
            for user_id in users:
                yield from _of_user(log, user_id, until, cut)
            after = users[-1]


def _of_user(log: ChangeFeed, user_id: str, until: int, cut: Cut) -> Iterator[list[str]]:
    ids = [version.message_id for version in log.versions(user_id, until, own_vectors_only=False)]
    for at in range(0, len(ids), _DECODED_MAX):
        stored = log.by_ids(user_id, ids[at : at + _DECODED_MAX]).values()
        yield [text for message in stored for text in cut(wire.decode(message.wire).content)]
