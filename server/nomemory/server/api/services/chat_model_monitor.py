"""Monitoring of the failures and the token usage of the chat model."""

from __future__ import annotations

from typing import Final

from nomemory.recall.model.model_reading import ModelFailure, ModelFailureKind, ModelReading
from nomemory.server.runtime.active_faults import (
    CHAT_MODEL,
    CREDENTIALS_REJECTED,
    ERROR_STATUS,
    INVALID_OUTPUT,
    INVALID_RESPONSE,
    RATE_LIMITED,
    TIMEOUT,
    UNREACHABLE,
    ActiveFaults,
)
from nomemory.server.runtime.metrics import catalog
from nomemory.server.runtime.metrics.meters import Meters

_FAULT_KINDS: Final = {
    ModelFailureKind.UNREACHABLE: UNREACHABLE,
    ModelFailureKind.TIMEOUT: TIMEOUT,
    ModelFailureKind.CREDENTIALS_REJECTED: CREDENTIALS_REJECTED,
    ModelFailureKind.RATE_LIMITED: RATE_LIMITED,
    ModelFailureKind.ERROR_STATUS: ERROR_STATUS,
    ModelFailureKind.INVALID_RESPONSE: INVALID_RESPONSE,
    ModelFailureKind.INVALID_OUTPUT: INVALID_OUTPUT,
}
"""The fault of each kind of failure. The other kinds do not indicate a fault of the model or its endpoint."""

_SPORADIC: Final = frozenset({ModelFailureKind.RATE_LIMITED, ModelFailureKind.INVALID_OUTPUT})
"""Failures that also occur in single requests to a working model."""
_MIN_SPORADIC: Final = 3
"""Number of consecutive failures after which a sporadic failure is a fault."""


class ChatModelMonitor:
    """Counts the failures and the tokens of the chat model, and reports its active fault. Not thread-safe.

    A sporadic failure becomes a fault after `_MIN_SPORADIC` consecutive failures. Any other failure in `_FAULT_KINDS`
    becomes a fault immediately. The fault is cleared when the chat model gives a well-formed answer.
    """

    def __init__(self, meters: Meters, faults: ActiveFaults) -> None:
        self._meters = meters
        self._faults = faults
        self._consecutive_failures = 0
        self._active_kind: str | None = None

    def record(self, reading: ModelReading) -> None:
        """Record the calls, tokens and failures of the chat model in one recall."""
        if reading.usage is not None:
            self._meters.count(catalog.CHAT_MODEL_TOKENS, "prompt", by=reading.usage.prompt)
            self._meters.count(catalog.CHAT_MODEL_TOKENS, "completion", by=reading.usage.completion)
            self._meters.count(catalog.CHAT_MODEL_TOKENS, "cached", by=reading.usage.cached)
        if reading.failure is not None:
            self._record_failure(reading.failure)
        elif reading.calls:
            self._record_answer()

    def _record_failure(self, failure: ModelFailure) -> None:
        self._meters.count(catalog.CHAT_MODEL_FAILURES, failure.kind.name)
        if failure.kind is ModelFailureKind.NO_VALID_QUOTE:
            self._record_answer()
        elif failure.kind in _FAULT_KINDS:
            self._consecutive_failures += 1
            if failure.kind not in _SPORADIC or self._consecutive_failures >= _MIN_SPORADIC:
                self._report(_FAULT_KINDS[failure.kind], failure.text)

    def _report(self, kind: str, detail: str) -> None:
        if self._active_kind not in (None, kind):
            self._faults.clear(CHAT_MODEL)
        self._active_kind = kind
        self._faults.report(CHAT_MODEL, kind, detail)

    def _record_answer(self) -> None:
        self._consecutive_failures = 0
        self._active_kind = None
        self._faults.clear(CHAT_MODEL)
