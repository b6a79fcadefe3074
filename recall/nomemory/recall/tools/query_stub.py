"""The QueryService stub, and the binding of a recall to one user."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from nomemory.recall.errors import RecallError
from nomemory.v1 import query_service_pb2 as pb

_Request_contra = TypeVar("_Request_contra", contravariant=True)
_Reply_co = TypeVar("_Reply_co", covariant=True)


class QueryServiceUnavailableError(RecallError):
    """The QueryService cannot be read. The message contains no content."""


class EmbeddingRefusedError(RecallError):
    """The QueryService rejected the caller's vector of the question. The message has the reason, but not the vector."""


class WriteTokenRefusedError(RecallError):
    """The QueryService rejected the caller's write token. The message gives the reason without the token."""


class IndexLaggingError(RecallError):
    """The indexes did not reach the caller's write token in time. The message contains no content."""


@dataclass(frozen=True, slots=True)
class Binding:
    """The messages that a recall may read: those of one user, optionally in one conversation only.

    Messages of `exclude_conversation_ids` are never read.

    `at_least` is a write token that the indexes must reach before the first read; empty to read immediately.
    """

    user_id: str
    conversation_id: str = ""
    at_least: str = ""
    exclude_conversation_ids: tuple[str, ...] = ()

    def allows_conversation(self, conversation_id: str) -> bool:
        """Return whether messages of a conversation may be read. An empty id means messages without a conversation."""
        return self.conversation_id in {"", conversation_id} and conversation_id not in self.exclude_conversation_ids


class Rpc(Protocol[_Request_contra, _Reply_co]):
    """A grpc.aio stub method."""

    def __call__(
        self, request: _Request_contra, /, *, timeout: float, metadata: Sequence[tuple[str, str]]
    ) -> Awaitable[_Reply_co]:
        """Call the method. Failures raise a grpc.RpcError with a code and details."""


class QueryStub(Protocol):
    """A grpc.aio stub of QueryService, or a compatible object."""

    @property
    def ListMessages(self) -> Rpc[pb.ListMessagesRequest, pb.ListMessagesResponse]:  # noqa: N802 - the contract's name
        """List messages by time."""

    @property
    def LexicalSearch(self) -> Rpc[pb.LexicalSearchRequest, pb.LexicalSearchResponse]:  # noqa: N802 - as above
        """Run a lexical search."""

    @property
    def SemanticSearch(self) -> Rpc[pb.SemanticSearchRequest, pb.SemanticSearchResponse]:  # noqa: N802 - as above
        """Run a semantic search."""

    @property
    def HybridSearch(self) -> Rpc[pb.HybridSearchRequest, pb.HybridSearchResponse]:  # noqa: N802 - as above
        """Run a hybrid search."""

    @property
    def GetNeighbors(self) -> Rpc[pb.GetNeighborsRequest, pb.GetNeighborsResponse]:  # noqa: N802 - as above
        """Read the messages around a message."""

    @property
    def BatchGetMessages(self) -> Rpc[pb.BatchGetMessagesRequest, pb.BatchGetMessagesResponse]:  # noqa: N802 - as above
        """Read messages by id."""
