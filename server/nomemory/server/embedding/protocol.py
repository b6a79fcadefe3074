"""The embedder interface and its errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from nomemory.server.embedding.vector import Vector
from nomemory.server.faults import Fault, Reason


class TextRefusedError(Exception):
    """The model cannot embed a text, and retries do not help. `position` is the index of the text in the call."""

    def __init__(self, position: int, cause: str) -> None:
        super().__init__(cause)
        self.position = position


class Embedder(Protocol):
    """Converts texts to vectors of length one.

    Both embedding methods raise `Fault` with EMBEDDER_UNAVAILABLE for temporary failures (timeout, rate limit, crash),
    and with EMBEDDER_DISABLED if the server has no embedder.
    """

    @property
    def kind(self) -> str:
        """`local`, `openai`, `none`, or the name of a plugin."""

    @property
    def model(self) -> str:
        """The model name. Vectors of different models are never compared."""

    @property
    def dimension(self) -> int:
        """The dimension of the vectors."""

    async def embed_query(self, text: str) -> Vector:
        """Embed a query. Queries do not wait for documents."""

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Embed documents.

        Raises:
            TextRefusedError: the model cannot embed one of the texts. No vectors are returned.
        """

    async def close(self) -> None:
        """Stop the model."""


RATE_LIMITED = "rate_limited"
_CAUSE = "cause"
_RETRY_AFTER_S = 1.0


def embedder_unavailable_fault(message: str, cause: str, retry_after_s: float = _RETRY_AFTER_S) -> Fault:
    """Return the fault for a temporary failure.

    Args:
        message: a description without message content or keys.
        cause: a machine-readable cause for the metadata of the fault.
        retry_after_s: the recommended retry delay, in seconds.
    """
    reason = Reason.ERROR_REASON_EMBEDDER_UNAVAILABLE
    return Fault(reason, message, metadata={_CAUSE: cause}, retry_after_s=retry_after_s)


def may_be_caused_by_text(fault: Fault) -> bool:
    """Return whether the texts of the call may have caused the fault. A rate limit is independent of the texts."""
    return fault.metadata.get(_CAUSE) != RATE_LIMITED
