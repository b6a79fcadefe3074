"""The faults of embedders."""

from __future__ import annotations

from nomemory.server.faults import Fault, Reason

RATE_LIMITED = "rate_limited"
_CAUSE = "cause"
_RETRY_AFTER_S = 1.0


def unavailable(message: str, cause: str, retry_after_s: float = _RETRY_AFTER_S) -> Fault:
    """Make the fault for what may pass.

    Args:
        message: a sentence without content or keys.
        cause: one word for machines, in the fault's metadata.
        retry_after_s: when to try again.
    """
    reason = Reason.ERROR_REASON_EMBEDDER_UNAVAILABLE
    return Fault(reason, message, metadata={_CAUSE: cause}, retry_after_s=retry_after_s)


def is_about_texts(fault: Fault) -> bool:
    """Return whether the texts of the call may be the cause: not if the provider asked for patience."""
    return fault.metadata.get(_CAUSE) != RATE_LIMITED
