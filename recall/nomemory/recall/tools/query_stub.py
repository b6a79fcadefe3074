"""The stub of QueryService that a recall reads through, and the binding to one user.

The parts of an error of the QueryService: its code, its message, and its violations by field.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from nomemory.recall.errors import RecallError
from nomemory.v1 import query_service_pb2 as pb

_Request_contra = TypeVar("_Request_contra", contravariant=True)
_Reply_co = TypeVar("_Reply_co", covariant=True)


class QueryServiceUnavailableError(RecallError):
    """The QueryService cannot be read from at all. Holds no content."""


class EmbeddingRefusedError(RecallError):
    """The QueryService does not take the caller's own vector of the question. The text says why, without the vector."""


class WriteTokenRefusedError(RecallError):
    """The QueryService does not take the caller's write token. The text says why, without the token."""


class IndexBehindError(RecallError):
    """What the caller's write token covers did not become searchable in time. Holds no content."""


@dataclass(frozen=True, slots=True)
class Binding:
    """What a recall may read: one user's messages, or only those of one of their conversations, where one is named.

    `at_least` is a write token: nothing is read before what it covers can be found. Empty: nothing is waited for.
    """

    user_id: str
    conversation_id: str = ""
    at_least: str = ""


class Rpc(Protocol[_Request_contra, _Reply_co]):
    """A method of a stub, as grpc.aio has it."""

    def __call__(
        self, request: _Request_contra, /, *, timeout: float, metadata: Sequence[tuple[str, str]]
    ) -> Awaitable[_Reply_co]:
        """Call it; fails with a grpc.RpcError that has a code and details."""


class QueryStub(Protocol):
    """A grpc.aio stub of QueryService, or anything in its form."""

    @property
    def ListMessages(self) -> Rpc[pb.ListMessagesRequest, pb.ListMessagesResponse]:  # noqa: N802 - the contract's name
        """Read by time."""

    @property
    def LexicalSearch(self) -> Rpc[pb.LexicalSearchRequest, pb.LexicalSearchResponse]:  # noqa: N802 - as above
        """Search for words."""

    @property
    def SemanticSearch(self) -> Rpc[pb.SemanticSearchRequest, pb.SemanticSearchResponse]:  # noqa: N802 - as above
        """Search for meaning."""

    @property
    def HybridSearch(self) -> Rpc[pb.HybridSearchRequest, pb.HybridSearchResponse]:  # noqa: N802 - as above
        """Search for an answer."""

    @property
    def GetNeighbors(self) -> Rpc[pb.GetNeighborsRequest, pb.GetNeighborsResponse]:  # noqa: N802 - as above
        """Read around a message."""

    @property
    def BatchGetMessages(self) -> Rpc[pb.BatchGetMessagesRequest, pb.BatchGetMessagesResponse]:  # noqa: N802 - as above
        """Resolve ids."""


_Detail = TypeVar("_Detail", bound=Message)
_EndedCall = grpc.Call | grpc.aio.AioRpcError


@dataclass(frozen=True, slots=True)
class ServiceError:
    """A call's error.

    `violations` are what is wrong with the fields of the request, by their paths. `reason` is the contract's name for
    what went wrong, such as `ERROR_REASON_INDEX_BEHIND`; empty: it says none.
    """

    code: grpc.StatusCode
    details: str = ""
    violations: Mapping[str, str] = field(default_factory=dict)
    reason: str = ""


def service_error(error: grpc.RpcError) -> ServiceError:
    """Read an error; one that says nothing of itself has the code UNKNOWN."""
    if not isinstance(error, _EndedCall):
        return ServiceError(grpc.StatusCode.UNKNOWN)
    status = _status(error)
    bad = _detail(status, error_details_pb2.BadRequest()).field_violations
    reason = _detail(status, error_details_pb2.ErrorInfo()).reason
    return ServiceError(error.code(), error.details() or "", {one.field: one.description for one in bad}, reason)


def _detail(status: status_pb2.Status, found: _Detail) -> _Detail:
    """Fill a detail from a status that has one of its kind; else it stays empty."""
    for detail in status.details:
        if detail.Unpack(found):
            break
    return found


def _status(call: _EndedCall) -> status_pb2.Status:
    """Return the google.rpc status that came with an error; an empty one where none did, or none that can be read."""
    try:
        return rpc_status.from_call(call) or status_pb2.Status()
    except (ValueError, DecodeError):
        return status_pb2.Status()
