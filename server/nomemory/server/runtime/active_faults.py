"""The active faults of the server's components."""

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
CHAT_MODEL: Final = "chat-model"
"""Component names, as reported in faults."""

PREVIOUS_MODEL: Final = "previous-"
"""The prefix of components of the model that is being replaced."""

UNRESPONSIVE: Final = "UNRESPONSIVE"
"""A worker process misses its heartbeats. It is killed and replaced."""
MEMORY_LIMIT_EXCEEDED: Final = "MEMORY_LIMIT_EXCEEDED"
"""A worker process exceeded its memory limit. It is killed and replaced."""
UNREACHABLE: Final = "UNREACHABLE"
"""A database, a Qdrant server or the endpoint of a chat model does not respond."""
ERASURE_BLOCKED: Final = "ERASURE_BLOCKED"
"""An erasure cannot be completed yet. It is retried."""
INDEX_INCONSISTENT: Final = "INDEX_INCONSISTENT"
"""An index lacks messages or contains deleted ones. It is being repaired."""
TIMEOUT: Final = "TIMEOUT"
"""The chat model does not answer within its timeout."""
CREDENTIALS_REJECTED: Final = "CREDENTIALS_REJECTED"
"""The endpoint of the chat model rejects the API key."""
RATE_LIMITED: Final = "RATE_LIMITED"
"""The endpoint of the chat model limits the rate of requests."""
ERROR_STATUS: Final = "ERROR_STATUS"
"""The endpoint of the chat model returns another HTTP error."""
INVALID_RESPONSE: Final = "INVALID_RESPONSE"
"""The responses of the chat model's endpoint are not chat completions."""
INVALID_OUTPUT: Final = "INVALID_OUTPUT"
"""The output of the chat model does not follow the schema."""


@dataclass(frozen=True, slots=True)
class ActiveFault:
    """An active fault of one component of the server.

    Attributes:
        component: the name of the component, such as `vector-engine`.
        kind: the kind of fault, a constant of this module such as `UNREACHABLE`.
        since_s: the time at which the fault began, in seconds since the Unix epoch.
        detail: a description of the fault without message content, ids or secrets.
    """

    component: str
    kind: str
    since_s: float
    detail: str


class ActiveFaults:
    """Records the active faults, at most one per component and kind. The class is not thread-safe.

    Args:
        prefix: a prefix that is added to all component names.
        faults: the dictionary that stores the faults, by component and kind; None creates a dictionary.
    """

    def __init__(self, prefix: str = "", faults: dict[tuple[str, str], ActiveFault] | None = None) -> None:
        self._prefix = prefix
        self._faults = {} if faults is None else faults

    def create_previous_model_view(self) -> ActiveFaults:
        """Return a view that adds `previous-` to component names, for the components of the previous model."""
        return ActiveFaults(PREVIOUS_MODEL, self._faults)

    def build_qualified_name(self, component: str) -> str:
        """Return the name of a component with the prefix of this view."""
        return f"{self._prefix}{component}"

    def report(self, component: str, kind: str, detail: str, *, ago_s: float = 0.0) -> None:
        """Record a fault that began `ago_s` seconds ago, or update the detail of an active fault."""
        component = self.build_qualified_name(component)
        fault = self._faults.get((component, kind))
        if fault is None:
            self._faults[component, kind] = ActiveFault(component, kind, time.time() - ago_s, detail)
            _log.error("fault raised", component=component, kind=kind, detail=detail)
        elif fault.detail != detail:
            self._faults[component, kind] = replace(fault, detail=detail)

    def clear(self, component: str, kind: str | None = None) -> None:
        """Remove all faults of a component, or only its fault of one kind."""
        component = self.build_qualified_name(component)
        for key in [key for key in self._faults if key[0] == component and kind in (None, key[1])]:
            fault = self._faults.pop(key)
            duration_s = round(time.time() - fault.since_s, 3)
            _log.info("fault cleared", component=component, kind=fault.kind, duration_s=duration_s)

    def list_active_faults(self) -> list[ActiveFault]:
        """Return the active faults of all components, oldest first."""
        return sorted(self._faults.values(), key=lambda fault: fault.since_s)
