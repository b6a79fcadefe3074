"""What is wrong with a server's parts right now, and since when."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Final

from nomemory.server.structured_logs import get_logger

_log = get_logger("faults")

LEXICAL_INDEXER: Final = "lexical-indexer"
VECTOR_ENGINE: Final = "vector-engine"
VECTOR_INDEX: Final = "vector-index"
QDRANT: Final = "qdrant"
ERASURE: Final = "erasure"
MESSAGE_LOG: Final = "message-log"
"""What parts of the server are called in faults."""

NOT_ANSWERING: Final = "NOT_ANSWERING"
"""A process answers no heartbeat: it is killed and replaced."""
MEMORY_EXCEEDED: Final = "MEMORY_EXCEEDED"
"""A process took more memory than it may: it was killed and is replaced."""
UNREACHABLE: Final = "UNREACHABLE"
"""A server that this one depends on does not answer."""
ERASURE_WAITS: Final = "ERASURE_WAITS"
"""Something cannot be erased now: it is tried again."""
INDEX_DAMAGED: Final = "INDEX_DAMAGED"
"""An index did not hold what the log says: what was missing is indexed again."""


@dataclass(frozen=True, slots=True)
class StandingFault:
    """Something that is wrong.

    Attributes:
        part: the part of the server, such as `vector-engine`.
        kind: one of the kinds of this module.
        since_s: when it began, in seconds since the Unix epoch.
        detail: in words, without content, ids or secrets.
    """

    part: str
    kind: str
    since_s: float
    detail: str


class StandingFaults:
    """The faults that stand. A part has at most one of a kind. Belongs to the event loop.

    Args:
        prefix: what the names of parts begin with here.
        standing: the faults by part and kind; None: there are none yet.
    """

    def __init__(self, prefix: str = "", standing: dict[tuple[str, str], StandingFault] | None = None) -> None:
        self._prefix = prefix
        self._standing = {} if standing is None else standing

    def former(self) -> StandingFaults:
        """Return where faults are noted of what serves until another one takes its place: of `former-…`."""
        return StandingFaults("former-", self._standing)

    def name_of(self, part: str) -> str:
        """Return what a part is called here."""
        return f"{self._prefix}{part}"

    def stand(self, part: str, kind: str, detail: str, *, ago_s: float = 0.0) -> None:
        """Note what is wrong, since so many seconds ago. What stood before keeps its time, and gets the detail."""
        part = self.name_of(part)
        stood = self._standing.get((part, kind))
        if stood is None:
            self._standing[part, kind] = StandingFault(part, kind, time.time() - ago_s, detail)
            _log.error("a fault stands", part=part, kind=kind, detail=detail)
        elif stood.detail != detail:
            self._standing[part, kind] = replace(stood, detail=detail)

    def clear(self, part: str, kind: str | None = None) -> None:
        """Note that a part is well again, or as far as one kind of fault is concerned."""
        part = self.name_of(part)
        for at in [at for at in self._standing if at[0] == part and kind in (None, at[1])]:
            over = self._standing.pop(at)
            lasted_s = round(time.time() - over.since_s, 3)
            _log.info("a fault is over", part=part, kind=over.kind, lasted_s=lasted_s)

    def all(self) -> list[StandingFault]:
        """Return the faults that stand, oldest first."""
        return sorted(self._standing.values(), key=lambda fault: fault.since_s)
