"""The current faults of a server's parts, and since when each stands."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Final

from nomemory.server.runtime.structured_logs import get_logger

_log = get_logger("faults")

LEXICAL_INDEXER: Final = "lexical-indexer"
VECTOR_ENGINE: Final = "vector-engine"
VECTOR_INDEX: Final = "vector-index"
QDRANT: Final = "qdrant"
ERASURE: Final = "erasure"
MESSAGE_LOG: Final = "message-log"
"""The names of the server's parts in faults."""

UNRESPONSIVE: Final = "UNRESPONSIVE"
"""A worker process answers no heartbeat: it is killed and replaced."""
MEMORY_LIMIT_EXCEEDED: Final = "MEMORY_LIMIT_EXCEEDED"
"""A worker process exceeded its memory limit: it was killed and is replaced."""
UNREACHABLE: Final = "UNREACHABLE"
"""A database or Qdrant server does not answer."""
ERASURE_BLOCKED: Final = "ERASURE_BLOCKED"
"""An erasure cannot be completed now: it is tried again."""
INDEX_INCONSISTENT: Final = "INDEX_INCONSISTENT"
"""An index lacked messages, or had deleted ones: it is being repaired."""


@dataclass(frozen=True, slots=True)
class StandingFault:
    """A fault of one part.

    Attributes:
        part: the name of the part, such as `vector-engine`.
        kind: one of the kinds of this module.
        since_s: when it began, in seconds since the Unix epoch.
        detail: a description without content, ids or secrets.
    """

    part: str
    kind: str
    since_s: float
    detail: str


class StandingFaults:
    """The current faults, at most one of a kind for each part. Belongs to the event loop.

    Args:
        prefix: put before the names of parts.
        standing: the faults by part and kind; None: there are none yet.
    """

    def __init__(self, prefix: str = "", standing: dict[tuple[str, str], StandingFault] | None = None) -> None:
        self._prefix = prefix
        self._standing = {} if standing is None else standing

    def former(self) -> StandingFaults:
        """Return a view in which parts are called `former-…`: those of the model that is being replaced."""
        return StandingFaults("former-", self._standing)

    def name_of(self, part: str) -> str:
        """Return the name of a part with the prefix."""
        return f"{self._prefix}{part}"

    def stand(self, part: str, kind: str, detail: str, *, ago_s: float = 0.0) -> None:
        """Record a fault that began `ago_s` seconds ago. A fault that stands keeps its time and gets the new detail."""
        part = self.name_of(part)
        standing = self._standing.get((part, kind))
        if standing is None:
            self._standing[part, kind] = StandingFault(part, kind, time.time() - ago_s, detail)
            _log.error("a fault stands", part=part, kind=kind, detail=detail)
        elif standing.detail != detail:
            self._standing[part, kind] = replace(standing, detail=detail)

    def clear(self, part: str, kind: str | None = None) -> None:
        """Remove the faults of a part, or its fault of one kind."""
        part = self.name_of(part)
        for key in [key for key in self._standing if key[0] == part and kind in (None, key[1])]:
            fault = self._standing.pop(key)
            lasted_s = round(time.time() - fault.since_s, 3)
            _log.info("a fault is over", part=part, kind=fault.kind, lasted_s=lasted_s)

    def all(self) -> list[StandingFault]:
        """Return the current faults, oldest first."""
        return sorted(self._standing.values(), key=lambda fault: fault.since_s)
