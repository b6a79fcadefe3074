"""The ids that the log makes for messages that come without one."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence

import orjson

from nomemory.server.log.sqlite.schema import DERIVED_IDS, LAST_ID, meta
from nomemory.server.log.writing import Named, digest_of, nameless_users, numbered, reused, to_remember
from nomemory.server.message import Message
from nomemory.server.message_id import IdNumbers, derived_id

_KNOWN = "SELECT user_id, first_id, size FROM requests WHERE digest=? AND user_id IN (SELECT value FROM json_each(?))"
_SOME = """
SELECT DISTINCT m.user_id FROM json_each(?) AS wanted CROSS JOIN messages AS m INDEXED BY messages_by_id
  ON m.user_id = json_extract(wanted.value, '$[0]') AND m.message_id = json_extract(wanted.value, '$[1]')
"""


class GivenIds:
    """Makes ids that grow, and gives the messages of a request the same ids when it comes again.

    Args:
        connection: to the log, for writing.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._saved = int(meta(connection, LAST_ID) or "0")
        self._numbers = IdNumbers(self._saved)
        self._has_derived = meta(connection, DERIVED_IDS) is not None

    def name(self, messages: Sequence[Message], request_id: str) -> Named:
        """Give an id to every message that has none.

        Raises:
            Fault: MESSAGE_CONFLICT, the request id was another batch's.
        """
        nameless = nameless_users(messages)
        if not nameless:
            return Named(messages)
        if request_id:
            return self._of_request(messages, nameless, request_id)
        return Named(numbered(messages, dict.fromkeys(nameless, self._numbers.take(len(messages)))))

    def remember(self, named: Named) -> None:
        """Keep what a request got."""
        self._connection.executemany("INSERT INTO requests VALUES (?, ?, ?, ?)", named.requests)

    def forget(self, user_id: str) -> None:
        """Drop what is remembered of a user's requests."""
        self._connection.execute("DELETE FROM requests WHERE user_id=?", (user_id,))

    def save(self) -> None:
        """Write down the last number, so that later ones are larger whatever becomes of this process."""
        if self._numbers.last != self._saved:
            row = (LAST_ID, str(self._numbers.last))
            self._connection.execute(
                "INSERT INTO meta VALUES (?, ?) ON CONFLICT DO UPDATE SET value=excluded.value", row
            )

    def saved(self) -> None:
        """Hear that what `save` wrote is committed."""
        self._saved = self._numbers.last

    def _of_request(self, messages: Sequence[Message], users: set[str], request_id: str) -> Named:
        digest = digest_of(request_id)
        known = self._known(users, digest, len(messages))
        derived = self._derived(messages, users - known.keys(), request_id)
        messages = _renamed(messages, derived)
        new = users - known.keys() - derived.keys()
        if not new:
            return Named(numbered(messages, known))
        first = self._numbers.take(len(messages))
        requests = to_remember(new, digest, first, len(messages))
        return Named(numbered(messages, {**known, **dict.fromkeys(new, first)}), requests)

    def _known(self, users: set[str], digest: bytes, size: int) -> dict[str, int]:
        rows = self._connection.execute(_KNOWN, (digest, orjson.dumps(sorted(users)))).fetchall()
        if any(other != size for _, _, other in rows):
            raise reused()
        return {user: int.from_bytes(first, "big") for user, first, _ in rows}

    def _derived(self, messages: Sequence[Message], users: set[str], request_id: str) -> Mapping[str, list[str]]:
        """Return the ids that a log of schema 1 gave to this very request, by user and place, if it did."""
        if not (self._has_derived and users):
            return {}
        places = range(len(messages))
        derived = {user: [derived_id(request_id, user, place) for place in places] for user in users}
        wanted = [
            (message.user_id, derived[message.user_id][place])
            for place, message in enumerate(messages)
            if not message.message_id and message.user_id in users
        ]
        return {user: derived[user] for (user,) in self._connection.execute(_SOME, (orjson.dumps(wanted),))}


def _renamed(messages: Sequence[Message], ids: Mapping[str, list[str]]) -> Sequence[Message]:
    if not ids:
        return messages
    return [
        message._replace(message_id=ids[message.user_id][place])
        if not message.message_id and message.user_id in ids
        else message
        for place, message in enumerate(messages)
    ]
