"""RPC methods that the blocking and the asyncio client have in common.

Each method takes the parameters of its request builder, which `requests.py` documents. A method of `Client` returns the
response; a method of `AsyncClient` returns an awaitable.
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
from nomemory.client.channel import ClientCredentials, add_authorization, create_channel_credentials
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


class BlockingClient:
    """Marker class for clients with blocking methods."""


class AsynchronousClient:
    """Marker class for clients with async methods."""


@dataclass(eq=False)
class ClientMethod(Generic[Options, Reply]):
    """Descriptor that makes an RPC method available as a method of a client.

    Attributes:
        path: the path of the method in gRPC, such as `/nomemory.v1.QueryService/ListMessages`.
        build_request: the function that builds a request. The client method has the same parameters.
        has_import_timeout: whether `import_timeout` applies instead of `timeout`.
    """

    path: str
    build_request: Callable[Options, Message]
    reply_type: type[Reply]
    has_import_timeout: bool = False

    def __post_init__(self) -> None:
        self.__doc__ = self.build_request.__doc__

    def bind(self, send: Callable[[Message, Metadata], Any]) -> Callable[Options, Any]:
        """Return a function that builds a request and passes it to `send`.

        The user id of a recall is passed as metadata.
        """

        @wraps(self.build_request)
        def call_method(*args: Options.args, **options: Options.kwargs) -> Any:  # noqa: ANN401 - the result type of `send`
            user_id: Any = options.get("user_id") if self.path.startswith(_RECALL) else None
            return send(self.build_request(*args, **options), requests.build_user_metadata(user_id))

        return call_method


class UnaryMethod(ClientMethod[Options, Reply]):
    """An RPC method that returns one response."""

    @overload
    def __get__(self, client: BlockingClient, owner: object) -> Callable[Options, Reply]: ...
    @overload
    def __get__(self, client: AsynchronousClient, owner: object) -> Callable[Options, Coroutine[Any, Any, Reply]]: ...
    def __get__(self, client: Any, owner: object) -> object:
        return self if client is None else self.bind(partial(client._call_unary, self))  # noqa: SLF001 - an internal method of the client


class StreamingMethod(ClientMethod[Options, Reply]):
    """An RPC method that returns a stream of responses. Closing the iterator cancels the call."""

    @overload
    def __get__(self, client: BlockingClient, owner: object) -> Callable[Options, Generator[Reply, None, None]]: ...
    @overload
    def __get__(self, client: AsynchronousClient, owner: object) -> Callable[Options, AsyncGenerator[Reply, None]]: ...
    def __get__(self, client: Any, owner: object) -> object:
        return self if client is None else self.bind(partial(client._call_stream, self))  # noqa: SLF001 - an internal method of the client


@dataclass(eq=False)
class PagedMethod(Generic[Options, Reply, Item]):
    """Descriptor for a client method that iterates over the items of all pages.

    Attributes:
        page_method: the RPC method that returns one page.
        items_of: a function that returns the items of a page.
    """

    page_method: UnaryMethod[Options, Reply]
    items_of: Callable[[Reply], Iterable[Item]]

    def __post_init__(self) -> None:
        self.__doc__ = f"Iterate over the items of all pages.\n\n{self.page_method.__doc__}"

    @overload
    def __get__(self, client: BlockingClient, owner: object) -> Callable[Options, Iterator[Item]]: ...
    @overload
    def __get__(self, client: AsynchronousClient, owner: object) -> Callable[Options, AsyncIterator[Item]]: ...
    def __get__(self, client: Any, owner: object) -> object:
        return self if client is None else self.page_method.bind(partial(client._iterate_items, self))  # noqa: SLF001 - as above


class BaseClient(ABC):
    """Base class of `Client` and `AsyncClient`. `Client` documents the options."""

    add = UnaryMethod(f"{_INGEST}/WriteMessages", requests.add, ingest.WriteMessagesResponse)
    write = UnaryMethod(f"{_INGEST}/WriteMessages", requests.write, ingest.WriteMessagesResponse)
    delete = UnaryMethod(f"{_INGEST}/DeleteMessages", requests.delete, ingest.DeleteMessagesResponse)
    delete_matching = UnaryMethod(f"{_INGEST}/DeleteMessages", requests.delete_matching, ingest.DeleteMessagesResponse)
    erase_user = UnaryMethod(f"{_INGEST}/EraseUser", requests.erase_user, ingest.EraseUserResponse)
    status = UnaryMethod(f"{_INGEST}/GetIndexStatus", requests.status, ingest.GetIndexStatusResponse)
    server_info = UnaryMethod(f"{_SERVER}/GetServerInfo", requests.server_info, server.GetServerInfoResponse)

    list_messages = UnaryMethod(f"{_QUERY}/ListMessages", requests.list_messages, query.ListMessagesResponse)
    list_conversations = UnaryMethod(
        f"{_QUERY}/ListConversations", requests.list_conversations, query.ListConversationsResponse
    )
    list_users = UnaryMethod(f"{_QUERY}/ListUsers", requests.list_users, query.ListUsersResponse)
    lexical_search = UnaryMethod(f"{_QUERY}/LexicalSearch", requests.lexical_search, query.LexicalSearchResponse)
    semantic_search = UnaryMethod(f"{_QUERY}/SemanticSearch", requests.semantic_search, query.SemanticSearchResponse)
    hybrid_search = UnaryMethod(f"{_QUERY}/HybridSearch", requests.hybrid_search, query.HybridSearchResponse)
    neighbors = UnaryMethod(f"{_QUERY}/GetNeighbors", requests.neighbors, query.GetNeighborsResponse)
    batch_get = UnaryMethod(f"{_QUERY}/BatchGetMessages", requests.batch_get, query.BatchGetMessagesResponse)

    iter_messages = PagedMethod(list_messages, lambda page: page.items)
    iter_conversations = PagedMethod(list_conversations, lambda page: page.conversations)
    iter_users = PagedMethod(list_users, lambda page: page.users)
    iter_lexical = PagedMethod(lexical_search, lexical_hits)
    _count = UnaryMethod(f"{_QUERY}/CountMessages", requests.count_messages, query.CountMessagesResponse)
    export_messages = StreamingMethod(
        f"{_QUERY}/ExportMessages", requests.export_messages, query.ExportMessagesResponse, has_import_timeout=True
    )

    recall = UnaryMethod(f"{_RECALL}/Recall", requests.recall, recalls.RecallResponse)
    stream_recall = StreamingMethod(f"{_RECALL}/StreamRecall", requests.stream_recall, recalls.StreamRecallResponse)
    build_context = UnaryMethod(f"{_RECALL}/BuildContext", requests.build_context, recalls.BuildContextResponse)

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
        identity = ClientCredentials(
            api_key=api_key, token=token, tls=tls, tls_ca=tls_ca, tls_cert=tls_cert, tls_key=tls_key
        )
        self._metadata = add_authorization(metadata, identity)
        self._timeout = timeout
        self._import_timeout = import_timeout
        self._open_channel(target, credentials or create_channel_credentials(identity), attempts)

    @abstractmethod
    def _open_channel(self, target: str, credentials: grpc.ChannelCredentials | None, attempts: int) -> None:
        """Open the gRPC channel."""
