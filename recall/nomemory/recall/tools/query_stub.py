"""The QueryService stub that a recall reads through, and its binding to one user."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

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

    Messages of `exclude_conversation_ids` are never read.

    `at_least` is a write token: nothing is read before what it covers can be found. Empty: nothing is waited for.
    """

    user_id: str
    conversation_id: str = ""
    at_least: str = ""
    exclude_conversation_ids: tuple[str, ...] = ()

    def admits(self, conversation_id: str) -> bool:
        """Return whether messages of a conversation may be read; empty: messages without one."""
        return self.conversation_id in {"", conversation_id} and conversation_id not in self.exclude_conversation_ids


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
