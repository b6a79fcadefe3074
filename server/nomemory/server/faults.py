"""Errors that are reported to callers. `api/errors.py` converts a `Fault` to a gRPC status."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from nomemory.v1 import error_reason_pb2

Reason = error_reason_pb2.ErrorReason
RETRY_AFTER_S = 1.0
"""Retry delay for calls rejected because the server is overloaded, in seconds."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A field of a request that failed validation.

    Attributes:
        description: why the value is invalid; never quotes message content.
    """

    field: str
    description: str


class Fault(Exception):  # noqa: N818 - used throughout the code base
    """An error with a reason code that the server reports to the caller.

    Args:
        reason: the ErrorReason, which determines the status code.
        message: the human-readable text; never quotes message content, keys or query text.
        retry_after_s: the recommended retry delay in seconds; None if a retry does not help.
    """

    def __init__(
        self,
        reason: error_reason_pb2.ErrorReason.ValueType,
        message: str,
        *,
        violations: Sequence[Violation] = (),
        metadata: Mapping[str, str] = MappingProxyType({}),
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.violations = tuple(violations)
        self.metadata = metadata
        self.retry_after_s = retry_after_s

    def __reduce__(self) -> tuple[type[Fault], tuple[object, ...], dict[str, object]]:
        """Pickle all attributes. By default, an exception pickles only its message."""
        return Fault, (self.reason, self.message), {**vars(self), "metadata": dict(self.metadata)}


def build_index_unavailable_fault(message: str, cause: str = "", retry_after_s: float = 1.0) -> Fault:
    """Return the INDEX_UNAVAILABLE fault with its cause.

    Args:
        message: the human-readable text, without message content.
        cause: the class of the underlying error, not its text, which may contain message content.
        retry_after_s: the recommended retry delay, in seconds.
    """
    metadata = {"cause": cause} if cause else {}
    return Fault(Reason.ERROR_REASON_INDEX_UNAVAILABLE, message, metadata=metadata, retry_after_s=retry_after_s)


def build_overload_fault(message: str) -> Fault:
    """Return the OVERLOADED fault, which asks the client to retry after `RETRY_AFTER_S` seconds."""
    return Fault(Reason.ERROR_REASON_OVERLOADED, message, retry_after_s=RETRY_AFTER_S)


def build_invalid_argument_fault(violations: Sequence[Violation]) -> Fault:
    """Return an INVALID_FIELD fault that lists the violations."""
    return build_field_fault(Reason.ERROR_REASON_INVALID_FIELD, *violations)


def build_field_fault(reason: error_reason_pb2.ErrorReason.ValueType, *violations: Violation) -> Fault:
    """Return a fault that lists violations, with a reason other than INVALID_FIELD."""
    message = "; ".join(f"{v.field}: {v.description}" for v in violations[:5])
    if len(violations) > 5:  # noqa: PLR2004 - the details list all violations
        message += f"; and {len(violations) - 5} more"
    return Fault(reason, message, violations=violations)
