"""Sends what was parsed, and accounts for every message of it."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from nomemory.cli.import_summary import Tally, tally_of
from nomemory.cli.importing.record import Accepted, Parsed, Refused, Skipped
from nomemory.v1 import ingest_service_pb2, message_pb2

STREAM_MESSAGES: Final = 1_000
"""Messages in one stream: as many rejections as a server lists, so that none goes unexplained."""

_IN_BATCH: Final = re.compile(r"^messages\[\d+\]\.?")

Refuse = Callable[[Accepted | Refused, tuple[str, ...]], None]
Send = Callable[[Sequence[message_pb2.ChatMessage]], ingest_service_pb2.ImportMessagesResponse]


class Upload:
    """Sends messages in streams of at most 1,000 and writes down what is refused, here or by the server.

    After a run `tally` and `ignored` are complete; if `send` raised, they cover what was stored before.

    Args:
        send: stores one stream.
        refuse: writes down what is refused, with the reasons.
    """

    def __init__(self, send: Send, refuse: Refuse) -> None:
        self._send = send
        self._refuse = refuse
        self.tally = Tally()
        self.ignored: Counter[str] = Counter()
        self.write_token = ""

    def run(self, items: Iterable[Parsed]) -> Iterator[Tally]:
        """Work through everything, and give the tally after each stream."""
        rest = iter(items)
        while chunk := list(itertools.islice(rest, STREAM_MESSAGES)):
            refused = [item for item in chunk if isinstance(item, Refused)]
            for item in refused:
                self._refuse(item, item.reasons)
            skipped = sum(isinstance(item, Skipped) for item in chunk)
            self.tally = self.tally.plus(Tally(rejected=len(refused), skipped=skipped))
            self._store([item for item in chunk if isinstance(item, Accepted)])
            yield self.tally

    def _store(self, accepted: Sequence[Accepted]) -> None:
        if not accepted:
            return
        reply = self._send([item.message for item in accepted])
        for rejection in reply.rejections:
            self._refuse(accepted[rejection.index], _reasons(rejection))
        self.tally = self.tally.plus(tally_of(len(accepted), reply))
        self.ignored.update(itertools.chain.from_iterable(item.ignored for item in accepted))
        self.write_token = reply.write_token or self.write_token


def _reasons(rejection: ingest_service_pb2.Rejection) -> tuple[str, ...]:
    """Return the violations without the message's place in its batch, which means nothing to the reader of a file."""
    return tuple(_IN_BATCH.sub("", violation) for violation in rejection.violations) or (rejection.reason,)
