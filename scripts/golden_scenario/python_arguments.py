"""What the Python client's methods take, from a request as JSON."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from google.protobuf.json_format import ParseDict

from nomemory.v1 import message_pb2

Json = Mapping[str, Any]

_FLATTENED = ("filter", "timeRange", "context", "recall", "highlight")
"""Messages within a request whose fields are options of their own."""
_RENAMED = {"queryEmbedding": "embedding", "rolePref": "role"}


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
