"""The embedder as the rest of the server sees it, and its faults."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from nomemory.server.embedding.vector import Vector
from nomemory.server.faults import Fault, Reason


class TextRefusedError(Exception):
    """The model can never embed this text. `position` is its place in the call."""

    def __init__(self, position: int, cause: str) -> None:
        super().__init__(cause)
        self.position = position


class Embedder(Protocol):
    """Turns texts into unit vectors of `dimension` numbers. All methods run on the event loop.

    Raises (both embedding methods): Fault EMBEDDER_UNAVAILABLE for what may pass (a time-out, a rate limit, a crash),
    Fault EMBEDDER_DISABLED where there is none.
    """

    @property
    def kind(self) -> str:
        """`local`, `openai`, `none`, or what an embedder of another package calls itself."""

    @property
    def model(self) -> str:
        """The model's name; vectors of different models are never compared."""

    @property
    def dimension(self) -> int:
        """How many numbers a vector has."""

    async def embed_query(self, text: str) -> Vector:
        """Embed a query. It does not wait behind documents."""

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Embed documents.

        Raises:
            TextRefusedError: one of the texts can never be embedded; none of the others was returned.
        """

    async def close(self) -> None:
        """Stop the model."""


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


def may_be_caused_by_text(fault: Fault) -> bool:
    """Return whether the texts of the call may be the cause: not if the provider asked for patience."""
    return fault.metadata.get(_CAUSE) != RATE_LIMITED
