"""Errors that a caller may see. `api/errors.py` turns a `Fault` into a status."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from nomemory.v1 import error_reason_pb2

Reason = error_reason_pb2.ErrorReason
RETRY_AFTER_S = 1.0
"""When a client may try again that was refused because the server is overloaded."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One fault of one field, by the field's path in the request. Never quotes content."""

    field: str
    description: str


class Fault(Exception):  # noqa: N818 - the word that the rest of the code reads by
    """An error that a caller may see.

    Args:
        reason: a value of the contract's ErrorReason; it decides the status code.
        message: a sentence for people, without content, keys or query text.
        violations: each bad field of the request.
        metadata: further facts for machines.
        retry_after_s: when to try again, where that helps.
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
        """Have it cross the pipe between two processes whole; of itself an exception keeps its message alone."""
        return Fault, (self.reason, self.message), {**vars(self), "metadata": dict(self.metadata)}


def index_unavailable(message: str, cause: str = "", retry_after_s: float = 1.0) -> Fault:
    """Make the fault of an index that does not answer. `cause` is a kind of error: words of others may hold content."""
    metadata = {"cause": cause} if cause else {}
    return Fault(Reason.ERROR_REASON_INDEX_UNAVAILABLE, message, metadata=metadata, retry_after_s=retry_after_s)


def overloaded(message: str) -> Fault:
    """Make the fault of a limit that is reached. RetryInfo tells the client when to try again."""
    return Fault(Reason.ERROR_REASON_OVERLOADED, message, retry_after_s=RETRY_AFTER_S)


def invalid(violations: Sequence[Violation]) -> Fault:
    """Make the fault for bad fields."""
    return bad_field(Reason.ERROR_REASON_INVALID_FIELD, *violations)


def bad_field(reason: error_reason_pb2.ErrorReason.ValueType, *violations: Violation) -> Fault:
    """Make a fault of any reason that names fields."""
    message = "; ".join(f"{v.field}: {v.description}" for v in violations[:5])
    if len(violations) > 5:  # noqa: PLR2004 - enough for a line; the details name all of them
        message += f"; and {len(violations) - 5} more"
    return Fault(reason, message, violations=violations)
