"""Convert the errors of a Qdrant server to faults."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar

import grpc
from qdrant_client.common.client_exceptions import QdrantException
from qdrant_client.http.exceptions import ApiException

from nomemory.server.faults import Fault, build_index_unavailable_fault

_T = TypeVar("_T")


async def await_response(call: Awaitable[_T]) -> _T:
    """Await a call of a Qdrant server, and return the response.

    Raises:
        Fault: INDEX_UNAVAILABLE: the server does not respond, or rejects the call.
    """
    try:
        return await call
    except (ApiException, QdrantException, grpc.RpcError) as error:
        raise build_unavailable_fault(error) from error


def build_unavailable_fault(error: BaseException) -> Fault:
    """Return the INDEX_UNAVAILABLE fault for an error.

    The fault contains only the type of the error.
    """
    return build_index_unavailable_fault("the vector index does not respond: retry later", type(error).__name__)
