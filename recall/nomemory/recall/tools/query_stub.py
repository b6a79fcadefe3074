"""Interface of the QueryService stub, its errors, and the binding of a recall to one user."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from nomemory.recall.errors import RecallError
from nomemory.v1 import query_service_pb2 as pb

_Request_contra = TypeVar("_Request_contra", contravariant=True)
_Reply_co = TypeVar("_Reply_co", covariant=True)


class QueryServiceUnavailableError(RecallError):
    """The QueryService does not respond or rejects all reads. The error message contains no message content."""


class EmbeddingRejectedError(RecallError):
    """The QueryService rejected the caller's vector of the question. The error message gives the reason."""


class WriteTokenRejectedError(RecallError):
    """The QueryService rejected the caller's write token. The error message gives the reason."""


class IndexLaggingError(RecallError):
    """The indexes did not reach the caller's write token in time."""


@dataclass(frozen=True, slots=True)
class UserBinding:
    """Binds a recall to the messages of one user and, optionally, of one conversation.

    Conversations in `exclude_conversation_ids` are never read. `at_least` is a write token that the indexes must reach
    before the first read, or empty.
    """

    user_id: str
    conversation_id: str = ""
    at_least: str = ""
    exclude_conversation_ids: tuple[str, ...] = ()

    def allows_conversation(self, conversation_id: str) -> bool:
        """Return whether the recall may read a conversation. An empty id means messages without a conversation."""
        return self.conversation_id in {"", conversation_id} and conversation_id not in self.exclude_conversation_ids


class StubMethod(Protocol[_Request_contra, _Reply_co]):
    """A method of a grpc.aio stub."""

    def __call__(
        self, request: _Request_contra, /, *, timeout: float, metadata: Sequence[tuple[str, str]]
    ) -> Awaitable[_Reply_co]:
        """Call the RPC method. A failed call raises a grpc.RpcError with a code and details."""


class QueryStub(Protocol):
    """A grpc.aio stub of QueryService, or a compatible object."""

    @property
    def ListMessages(self) -> StubMethod[pb.ListMessagesRequest, pb.ListMessagesResponse]:  # noqa: N802 - the contract's name
        """The stub method that lists messages by time."""

    @property
    def LexicalSearch(self) -> StubMethod[pb.LexicalSearchRequest, pb.LexicalSearchResponse]:  # noqa: N802 - as above
        """The stub method for lexical search."""

    @property
    def SemanticSearch(self) -> StubMethod[pb.SemanticSearchRequest, pb.SemanticSearchResponse]:  # noqa: N802 - as above
        """The stub method for semantic search."""

    @property
    def HybridSearch(self) -> StubMethod[pb.HybridSearchRequest, pb.HybridSearchResponse]:  # noqa: N802 - as above
        """The stub method for hybrid search."""

    @property
    def GetNeighbors(self) -> StubMethod[pb.GetNeighborsRequest, pb.GetNeighborsResponse]:  # noqa: N802 - as above
        """The stub method that returns the messages around a message."""

    @property
    def BatchGetMessages(self) -> StubMethod[pb.BatchGetMessagesRequest, pb.BatchGetMessagesResponse]:  # noqa: N802 - as above
        """The stub method that returns messages by id."""
