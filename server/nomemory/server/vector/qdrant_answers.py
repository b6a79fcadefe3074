"""Answers of a Qdrant server, and our own words for what goes wrong with it."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar

import grpc
from qdrant_client.common.client_exceptions import QdrantException
from qdrant_client.http.exceptions import ApiException

from nomemory.server.faults import Fault, Reason

_T = TypeVar("_T")
_RETRY_AFTER_S = 1.0


async def answered(answer: Awaitable[_T]) -> _T:
    """Wait for the server.

    Raises:
        Fault: INDEX_UNAVAILABLE if it does not answer, or refuses.
    """
    try:
        return await answer
    except (ApiException, QdrantException, grpc.RpcError) as error:
        raise unavailable(error) from error


def unavailable(error: BaseException) -> Fault:
    """Return what a caller is told. It names the kind of error alone: texts of the server may hold content."""
    return Fault(
        Reason.ERROR_REASON_INDEX_UNAVAILABLE,
        "the vector index does not answer",
        metadata={"cause": type(error).__name__},
        retry_after_s=_RETRY_AFTER_S,
    )
