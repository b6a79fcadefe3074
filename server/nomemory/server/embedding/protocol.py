"""The embedder interface and its errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from nomemory.server.embedding.vector import Vector
from nomemory.server.faults import Fault, Reason


class TextRejectedError(Exception):
    """The model cannot embed a text, and retries do not help.

    `position` is the index of the text among the texts of the call.
    """

    def __init__(self, position: int, cause: str) -> None:
        super().__init__(cause)
        self.position = position


class Embedder(Protocol):
    """Converts texts to vectors of length one.

    Both embedding methods raise an EMBEDDER_UNAVAILABLE fault for temporary failures (timeout, rate limit, crash), and
    an EMBEDDER_DISABLED fault if the server has no embedder.
    """

    @property
    def kind(self) -> str:
        """The kind of embedder: `local`, `openai`, `none`, or the name of a plugin."""

    @property
    def model(self) -> str:
        """The model name. Vectors of different models are never compared."""

    @property
    def dimension(self) -> int:
        """The dimension of the embedder's vectors."""

    async def embed_query(self, text: str) -> Vector:
        """Embed a query. A query does not wait for documents."""

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Embed documents.

        Raises:
            TextRejectedError: the model cannot embed one of the texts, and none of the vectors is returned.
        """

    async def close(self) -> None:
        """Stop the model."""


RATE_LIMITED = "rate_limited"
_CAUSE = "cause"
_RETRY_AFTER_S = 1.0


def build_embedder_unavailable_fault(message: str, cause: str, retry_after_s: float = _RETRY_AFTER_S) -> Fault:
    """Return the EMBEDDER_UNAVAILABLE fault for a temporary failure.

    Args:
        message: the human-readable text, without message content or keys.
        cause: the machine-readable cause in the metadata of the fault.
        retry_after_s: the recommended retry delay, in seconds.
    """
    reason = Reason.ERROR_REASON_EMBEDDER_UNAVAILABLE
    return Fault(reason, message, metadata={_CAUSE: cause}, retry_after_s=retry_after_s)


def may_be_caused_by_text(fault: Fault) -> bool:
    """Return whether the texts of a call may have caused its fault.

    A rate limit, for example, does not depend on the texts.
    """
    return fault.metadata.get(_CAUSE) != RATE_LIMITED
