"""Player of the golden scenario with the Python client.

Usage: `python -m proofs.conformance.python_player SCENARIO CONNECTION OUTPUT`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message import Message

from nomemory.client import Client, NoMemoryError
from nomemory.v1 import message_pb2
from proofs.conformance.play import Json, RejectedCallError, ScenarioPlayer, run_player

_FLATTENED = ("filter", "timeRange", "context", "highlight")
"""Nested messages whose fields are separate keyword arguments of the client."""
_RENAMED = {"queryEmbedding": "embedding", "preferredRole": "role"}


def build_keyword_arguments(request: Json) -> dict[str, Any]:
    """Return the keyword arguments of a request."""
    keywords: dict[str, Any] = {}
    for name, value in request.items():
        if name in _FLATTENED:
            keywords |= build_keyword_arguments(value)
        else:
            keywords[_to_snake_case(_RENAMED.get(name, name))] = _to_argument(value)
    if keywords.pop("order", None) == "LIST_ORDER_OLDEST_FIRST":
        keywords["oldest_first"] = True
    if "return_fields" in keywords:
        keywords["return_fields"] = keywords["return_fields"].split(",")
    return keywords


def parse_messages(request: Json) -> Sequence[message_pb2.ChatMessage]:
    """Return the messages that a request writes."""
    return [ParseDict(message, message_pb2.ChatMessage()) for message in request["messages"]]


def _to_argument(value: object) -> object:
    if isinstance(value, list):
        return list(map(_to_argument, value))
    if isinstance(value, dict):
        is_embedding = "values" in value
        return value["values"] if is_embedding else {name: _to_argument(item) for name, item in value.items()}
    return value.removeprefix("ROLE_").lower() if isinstance(value, str) and value.startswith("ROLE_") else value


def _to_snake_case(name: str) -> str:
    return re.sub(r"[A-Z]", lambda capital: f"_{capital[0].lower()}", name)


Keywords = dict[str, Any]
"""Keyword arguments of a call."""


def make_call(client: Client, step: Json, request: Json) -> Iterable[object]:
    """Make the call of a step; return its reply, the replies of a stream, or all items of a listing.

    Raises:
        NoMemoryError: the call failed.
    """
    call = step["call"]
    if call in _WRITES:
        return [_WRITES[call](client, request)]
    keywords = build_keyword_arguments(request)
    if "for" in step:
        keywords["user_id"] = step["for"]
    if call in _STREAMS:
        return _STREAMS[call](client, keywords)
    return _LISTINGS[call](client, keywords) if step.get("all") else [_READS[call](client, keywords)]


def _call_delete(client: Client, request: Json) -> object:
    if "filter" in request:
        return client.delete_matching(**build_keyword_arguments(request))
    return client.delete(request["userId"], request.get("messageIds", ()))


def _call_write(client: Client, request: Json) -> object:
    request_id = request.get("requestId", "")
    return client.write(parse_messages(request), replace=request.get("replace", False), request_id=request_id)


def _make_search_call(method: Callable[..., Any]) -> Callable[[Keywords], Any]:
    def call(keywords: Keywords) -> Any:  # noqa: ANN401 - the result type of the method
        return method(
            keywords.pop("user_id", ""), keywords.pop("query_text", None) or keywords.pop("embedding"), **keywords
        )

    return call


def _call_list(method: Callable[..., Any], keywords: Keywords) -> Any:  # noqa: ANN401 - the result type of the method
    return method(keywords.pop("user_id", ""), **keywords)


_WRITES: Final[Mapping[str, Callable[[Client, Json], object]]] = {
    "WriteMessages": _call_write,
    "ImportMessages": lambda client, request: client.import_messages(parse_messages(request)),
    "DeleteMessages": _call_delete,
    "EraseUser": lambda client, request: client.erase_user(request["userId"]),
}
_READS: Final[Mapping[str, Callable[[Client, Keywords], object]]] = {
    "GetServerInfo": lambda client, _: client.server_info(),
    "GetIndexStatus": lambda client, keywords: client.status(**keywords),
    "ListMessages": lambda client, keywords: _call_list(client.list_messages, keywords),
    "BatchGetMessages": lambda client, keywords: client.batch_get(**keywords),
    "CountMessages": lambda client, keywords: (
        {"count": str(count)} if (count := client.count_messages(**keywords)) else {}
    ),
    "LexicalSearch": lambda client, keywords: _make_search_call(client.lexical_search)(keywords),
    "SemanticSearch": lambda client, keywords: _make_search_call(client.semantic_search)(keywords),
    "HybridSearch": lambda client, keywords: _make_search_call(client.hybrid_search)(keywords),
    "GetNeighbors": lambda client, keywords: client.neighbors(**keywords),
    "Recall": lambda client, keywords: client.recall(**keywords),
    "BuildContext": lambda client, keywords: client.build_context(**keywords),
}
_LISTINGS: Final[Mapping[str, Callable[[Client, Keywords], Iterable[object]]]] = {
    "ListMessages": lambda client, keywords: client.iter_messages(**keywords),
    "LexicalSearch": lambda client, keywords: (hit.message for hit in _make_search_call(client.iter_lexical)(keywords)),
    "ListConversations": lambda client, keywords: client.iter_conversations(**keywords),
    "ListUsers": lambda client, keywords: client.iter_users(**keywords),
}
_STREAMS: Final[Mapping[str, Callable[[Client, Keywords], Iterable[object]]]] = {
    "ExportMessages": lambda client, keywords: client.export_messages(**keywords),
    "StreamRecall": lambda client, keywords: client.stream_recall(**keywords),
}


class PythonPlayer(ScenarioPlayer):
    """Player that makes the calls with the Python client of each caller."""

    def __init__(self, connection: Json) -> None:
        """Create a client for each caller of a connection file."""
        super().__init__()
        target, authorities = connection["target"], connection["authorities"]
        self._clients = {
            caller: Client(target, token=bearer or None, tls_ca=authorities)
            for caller, bearer in connection["bearers"].items()
        }

    def call(self, step: Json, request: Any) -> list[object]:  # noqa: ANN401 - JSON
        """Make the call of a step, and return its replies."""
        return call_and_convert(self._clients[step["as"]], step, request)


def call_and_convert(client: Client, step: Json, request: Any) -> list[object]:  # noqa: ANN401 - JSON
    """Make the call of a step with a client; return its replies as JSON.

    Raises:
        RejectedCallError: the call failed.
    """
    try:
        return [_to_json(reply) for reply in make_call(client, step, request)]
    except NoMemoryError as error:
        raise RejectedCallError(_build_error_outcome(error)) from None


def _build_error_outcome(error: NoMemoryError) -> Json:
    violations = [violation.field for violation in error.violations]
    return {"code": error.code.name, "reason": error.reason, "message": error.message, "violations": violations}


def _to_json(reply: object) -> object:
    return MessageToDict(reply) if isinstance(reply, Message) else reply


if __name__ == "__main__":
    run_player(PythonPlayer)
