"""The calls of the scenario, made with the Python client."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from golden_scenario.python_arguments import Json, arguments, messages
from nomemory.client import Client

Given = dict[str, Any]
"""A call's keyword arguments."""


def replies(client: Client, step: Json, request: Json) -> Iterable[object]:
    """Make a step's call; yield its replies: one, those of a stream, or everything that a listing has.

    Raises:
        NoMemoryError: it is refused.
    """
    call = step["call"]
    if call in _WRITES:
        return [_WRITES[call](client, request)]
    given = arguments(request)
    if "for" in step:
        given["user_id"] = step["for"]
    if call in _STREAMS:
        return _STREAMS[call](client, given)
    return _LISTINGS[call](client, given) if step.get("all") else [_READS[call](client, given)]


def _delete(client: Client, request: Json) -> object:
    if "filter" in request:
        return client.delete_matching(**arguments(request))
    return client.delete(request["userId"], request.get("messageIds", ()))


def _write(client: Client, request: Json) -> object:
    request_id = request.get("requestId", "")
    return client.write(messages(request), replace=request.get("replace", False), request_id=request_id)


def _searched(method: Callable[..., Any]) -> Callable[[Given], Any]:
    def call(given: Given) -> Any:  # noqa: ANN401 - whatever the method returns
        return method(given.pop("user_id", ""), given.pop("query_text", None) or given.pop("embedding"), **given)

    return call


def _listed(method: Callable[..., Any], given: Given) -> Any:  # noqa: ANN401 - whatever the method returns
    return method(given.pop("user_id", ""), **given)


_WRITES: Final[Mapping[str, Callable[[Client, Json], object]]] = {
    "WriteMessages": _write,
    "ImportMessages": lambda client, request: client.import_messages(messages(request)),
    "DeleteMessages": _delete,
    "EraseUser": lambda client, request: client.erase_user(request["userId"]),
}
_READS: Final[Mapping[str, Callable[[Client, Given], object]]] = {
    "GetServerInfo": lambda client, _: client.server_info(),
    "GetIndexStatus": lambda client, given: client.status(**given),
    "ListMessages": lambda client, given: _listed(client.list_messages, given),
    "BatchGetMessages": lambda client, given: client.batch_get(**given),
    "CountMessages": lambda client, given: {"count": str(count)} if (count := client.count_messages(**given)) else {},
    "LexicalSearch": lambda client, given: _searched(client.lexical_search)(given),
    "SemanticSearch": lambda client, given: _searched(client.semantic_search)(given),
    "HybridSearch": lambda client, given: _searched(client.hybrid_search)(given),
    "GetNeighbors": lambda client, given: client.neighbors(**given),
    "Recall": lambda client, given: client.recall(**given),
}
_LISTINGS: Final[Mapping[str, Callable[[Client, Given], Iterable[object]]]] = {
    "ListMessages": lambda client, given: client.iter_messages(**given),
    "LexicalSearch": lambda client, given: (hit.message for hit in _searched(client.iter_lexical)(given)),
    "ListConversations": lambda client, given: client.iter_conversations(**given),
    "ListUsers": lambda client, given: client.iter_users(**given),
}
_STREAMS: Final[Mapping[str, Callable[[Client, Given], Iterable[object]]]] = {
    "ExportMessages": lambda client, given: client.export_messages(**given),
    "StreamRecall": lambda client, given: client.stream_recall(**given),
}
