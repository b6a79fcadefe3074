"""RPC methods of both clients: path, request builder and response type.

Each method takes the parameters of its builder in `requests.py`, where it is documented. `Client` methods return the
response; `AsyncClient` methods return an awaitable.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any, Final, Generic, ParamSpec, TypeVar, overload

import grpc
from google.protobuf.message import Message

from nomemory.client import requests
from nomemory.client.channel import Identity, channel_credentials, with_credential
from nomemory.client.search_hits import lexical_hits
from nomemory.v1 import ingest_service_pb2 as ingest
from nomemory.v1 import query_service_pb2 as query
from nomemory.v1 import recall_service_pb2 as recalls
from nomemory.v1 import server_service_pb2 as server

_INGEST: Final = "/nomemory.v1.IngestService"
_QUERY: Final = "/nomemory.v1.QueryService"
_RECALL: Final = "/nomemory.v1.RecallService"
_SERVER: Final = "/nomemory.v1.ServerService"

Metadata = Sequence[tuple[str, str | bytes]]
Options = ParamSpec("Options")
Reply = TypeVar("Reply", bound=Message)
Item = TypeVar("Item")


class Blocking:
    """Marker for clients with blocking methods."""


class Asynchronous:
    """Marker for clients with async methods."""


@dataclass(eq=False)
class Call(Generic[Options, Reply]):
    """An RPC method.

    Attributes:
        path: the gRPC path.
        build: builds the request from the arguments.
        reply: the response type.
        is_long: whether the import timeout applies.
    """

    path: str
    build: Callable[Options, Message]
    reply: type[Reply]
    is_long: bool = False

    def __post_init__(self) -> None:
        self.__doc__ = self.build.__doc__

    def bound_method(self, send: Callable[[Message, Metadata], Any]) -> Callable[Options, Any]:
        """Return a method that builds a request and passes it to `send`, with the user id of a recall as metadata."""

        @wraps(self.build)
        def method(*args: Options.args, **options: Options.kwargs) -> Any:  # noqa: ANN401 - what `send` returns
            user_id: Any = options.get("user_id") if self.path.startswith(_RECALL) else None
            return send(self.build(*args, **options), requests.user_metadata(user_id))

        return method


class Unary(Call[Options, Reply]):
    """A method with a single response."""

    @overload
    def __get__(self, client: Blocking, owner: object) -> Callable[Options, Reply]: ...
    @overload
    def __get__(self, client: Asynchronous, owner: object) -> Callable[Options, Coroutine[Any, Any, Reply]]: ...
    def __get__(self, client: Any, owner: object) -> object:
        return self if client is None else self.bound_method(partial(client._unary, self))  # noqa: SLF001 - the client's implementation


class Streamed(Call[Options, Reply]):
    """A method that returns a stream of responses. Closing the iterator cancels the call."""

    @overload
    def __get__(self, client: Blocking, owner: object) -> Callable[Options, Generator[Reply, None, None]]: ...
    @overload
    def __get__(self, client: Asynchronous, owner: object) -> Callable[Options, AsyncGenerator[Reply, None]]: ...
    def __get__(self, client: Any, owner: object) -> object:
        return self if client is None else self.bound_method(partial(client._stream, self))  # noqa: SLF001 - the client's implementation


@dataclass(eq=False)
class Paged(Generic[Options, Reply, Item]):
    """A method that iterates over all pages of a listing.

    Attributes:
        listing: the method that returns a page.
        items: returns the items of a page.
    """

    listing: Unary[Options, Reply]
    items: Callable[[Reply], Iterable[Item]]

    def __post_init__(self) -> None:
        self.__doc__ = f"Iterate over the items of all pages.\n\n{self.listing.__doc__}"

    @overload
    def __get__(self, client: Blocking, owner: object) -> Callable[Options, Iterator[Item]]: ...
    @overload
    def __get__(self, client: Asynchronous, owner: object) -> Callable[Options, AsyncIterator[Item]]: ...
    def __get__(self, client: Any, owner: object) -> object:
        return self if client is None else self.listing.bound_method(partial(client._pages, self))  # noqa: SLF001 - as above


class BaseClient(ABC):
    """Base class of both clients. `nomemory.client.Client` documents the options."""

    add = Unary(f"{_INGEST}/WriteMessages", requests.add, ingest.WriteMessagesResponse)
    write = Unary(f"{_INGEST}/WriteMessages", requests.write, ingest.WriteMessagesResponse)
    delete = Unary(f"{_INGEST}/DeleteMessages", requests.delete, ingest.DeleteMessagesResponse)
    delete_matching = Unary(f"{_INGEST}/DeleteMessages", requests.delete_matching, ingest.DeleteMessagesResponse)
    erase_user = Unary(f"{_INGEST}/EraseUser", requests.erase_user, ingest.EraseUserResponse)
    status = Unary(f"{_INGEST}/GetIndexStatus", requests.status, ingest.GetIndexStatusResponse)
    server_info = Unary(f"{_SERVER}/GetServerInfo", requests.server_info, server.GetServerInfoResponse)

    list_messages = Unary(f"{_QUERY}/ListMessages", requests.list_messages, query.ListMessagesResponse)
    list_conversations = Unary(
        f"{_QUERY}/ListConversations", requests.list_conversations, query.ListConversationsResponse
    )
    list_users = Unary(f"{_QUERY}/ListUsers", requests.list_users, query.ListUsersResponse)
    lexical_search = Unary(f"{_QUERY}/LexicalSearch", requests.lexical_search, query.LexicalSearchResponse)
    semantic_search = Unary(f"{_QUERY}/SemanticSearch", requests.semantic_search, query.SemanticSearchResponse)
    hybrid_search = Unary(f"{_QUERY}/HybridSearch", requests.hybrid_search, query.HybridSearchResponse)
    neighbors = Unary(f"{_QUERY}/GetNeighbors", requests.neighbors, query.GetNeighborsResponse)
    batch_get = Unary(f"{_QUERY}/BatchGetMessages", requests.batch_get, query.BatchGetMessagesResponse)

    iter_messages = Paged(list_messages, lambda page: page.items)
    iter_conversations = Paged(list_conversations, lambda page: page.conversations)
    iter_users = Paged(list_users, lambda page: page.users)
    iter_lexical = Paged(lexical_search, lexical_hits)
    _count = Unary(f"{_QUERY}/CountMessages", requests.count_messages, query.CountMessagesResponse)
    export_messages = Streamed(
        f"{_QUERY}/ExportMessages", requests.export_messages, query.ExportMessagesResponse, is_long=True
    )

    recall = Unary(f"{_RECALL}/Recall", requests.recall, recalls.RecallResponse)
    stream_recall = Streamed(f"{_RECALL}/StreamRecall", requests.stream_recall, recalls.StreamRecallResponse)
    build_context = Unary(f"{_RECALL}/BuildContext", requests.build_context, recalls.BuildContextResponse)

    def __init__(  # noqa: PLR0913 - a parameter for each option
        self,
        target: str,
        *,
        api_key: str | None = None,
        token: str | None = None,
        tls: bool = False,
        tls_ca: str | os.PathLike[str] | None = None,
        tls_cert: str | os.PathLike[str] | None = None,
        tls_key: str | os.PathLike[str] | None = None,
        credentials: grpc.ChannelCredentials | None = None,
        metadata: Sequence[tuple[str, str]] = (),
        timeout: float = 30.0,
        import_timeout: float = 3600.0,
        attempts: int = 4,
    ) -> None:
        identity = Identity(api_key=api_key, token=token, tls=tls, tls_ca=tls_ca, tls_cert=tls_cert, tls_key=tls_key)
        self._metadata = with_credential(metadata, identity)
        self._timeout = timeout
        self._import_timeout = import_timeout
        self._open(target, credentials or channel_credentials(identity), attempts)

    @abstractmethod
    def _open(self, target: str, credentials: grpc.ChannelCredentials | None, attempts: int) -> None:
        """Open the channel."""
