"""Plays the golden scenario with the Python client.

`python -m proofs.conformance.python_player SCENARIO SERVER WRITTEN`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message import Message

from nomemory.client import Client, NoMemoryError
from nomemory.v1 import message_pb2
from proofs.conformance.play import CallRefusedError, Json, Play, play

_FLATTENED = ("filter", "timeRange", "context", "highlight")
"""Messages within a request whose fields are options of their own."""
_RENAMED = {"queryEmbedding": "embedding", "preferredRole": "role"}


def arguments(request: Json) -> dict[str, Any]:
    """Return the keyword arguments of a request."""
    given: dict[str, Any] = {}
    for name, value in request.items():
        if name in _FLATTENED:
            given |= arguments(value)
        else:
            given[_snake_case(_RENAMED.get(name, name))] = _plain(value)
    if given.pop("order", None) == "LIST_ORDER_OLDEST_FIRST":
        given["oldest_first"] = True
    if "return_fields" in given:
        given["return_fields"] = given["return_fields"].split(",")
    return given


def messages(request: Json) -> Sequence[message_pb2.ChatMessage]:
    """Return the messages that a request writes."""
    return [ParseDict(message, message_pb2.ChatMessage()) for message in request["messages"]]


def _plain(value: object) -> object:
    if isinstance(value, dict) and "values" in value:  # an embedding
        return value["values"]
    return value.removeprefix("ROLE_").lower() if isinstance(value, str) and value.startswith("ROLE_") else value


def _snake_case(name: str) -> str:
    return re.sub(r"[A-Z]", lambda capital: f"_{capital[0].lower()}", name)


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


class PythonPlay(Play):
    """Makes the calls of steps with the client, each as its caller."""

    def __init__(self, reached: Json) -> None:
        """Take how to reach the server, as `golden_server` tells it."""
        super().__init__()
        target, authorities = reached["target"], reached["authorities"]
        self._clients = {
            caller: Client(target, token=bearer or None, tls_ca=authorities)
            for caller, bearer in reached["bearers"].items()
        }

    def replies(self, step: Json, request: Any) -> list[object]:  # noqa: ANN401 - JSON
        """Make a step's call."""
        return replies_of(self._clients[step["as"]], step, request)


def replies_of(client: Client, step: Json, request: Any) -> list[object]:  # noqa: ANN401 - JSON
    """Make a step's call with a client; return its replies as JSON.

    Raises:
        CallRefusedError: it is refused.
    """
    try:
        return [_as_json(reply) for reply in replies(client, step, request)]
    except NoMemoryError as error:
        raise CallRefusedError(_refusal(error)) from None


def _refusal(error: NoMemoryError) -> Json:
    violations = [violation.field for violation in error.violations]
    return {"code": error.code.name, "reason": error.reason, "message": error.message, "violations": violations}


def _as_json(reply: object) -> object:
    return MessageToDict(reply) if isinstance(reply, Message) else reply


if __name__ == "__main__":
    play(PythonPlay)
