"""Plays the golden scenario over HTTP, as a program without stubs makes the calls from the annotations.

`python -m proofs.conformance.http_player SCENARIO SERVER WRITTEN`.
"""

from __future__ import annotations

import base64
import json
import re
import ssl
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode

import httpx
from google.api import annotations_pb2
from google.protobuf.descriptor import MethodDescriptor

from nomemory.v1 import ingest_service_pb2, query_service_pb2, recall_service_pb2, server_service_pb2
from proofs.conformance.play import CallRefusedError, Json, Play, play

_MODULES: Final = (ingest_service_pb2, query_service_pb2, recall_service_pb2, server_service_pb2)
METHODS: Final[Mapping[str, MethodDescriptor]] = {
    method.name: method
    for module in _MODULES
    for service in module.DESCRIPTOR.services_by_name.values()
    for method in service.methods
}
_LISTED: Final = {
    "ListMessages": "items",
    "LexicalSearch": "items",
    "ListConversations": "conversations",
    "ListUsers": "users",
}
"""What the pages of a listing have."""


def replies(client: httpx.Client, step: Json, request: Json) -> Iterator[object]:
    """Make a step's call; yield its replies: one, those of a stream, or everything that a listing has.

    Raises:
        CallRefusedError: it is refused.
    """
    method = METHODS[step["call"]]
    headers = {"x-user-id-bin": _binary(step["for"])} if "for" in step else {}
    if step.get("all"):
        yield from _listed(client, method, request, headers)
        return
    asked = {"recall": request} if method.name == "StreamRecall" and "recall" not in request else request
    answer = _send(client, method, asked, headers)
    if method.server_streaming:
        yield from _events(answer.text)
    else:
        yield answer.json()


def _binary(user_id: str) -> str:
    return base64.b64encode(user_id.encode()).decode()


def _listed(client: httpx.Client, method: MethodDescriptor, request: Json, headers: Mapping[str, str]) -> Iterator[Any]:
    cursor = ""
    while True:
        page = _send(client, method, {**request, "cursor": cursor} if cursor else request, headers).json()
        yield from page.get(_LISTED[method.name], ())
        cursor = page.get("nextCursor", "")
        if not cursor:
            return


def _send(client: httpx.Client, method: MethodDescriptor, request: Json, headers: Mapping[str, str]) -> httpx.Response:
    rule = method.GetOptions().Extensions[annotations_pb2.http]
    verb = rule.WhichOneof("pattern")
    fields = dict(request)

    def filled(variable: re.Match[str]) -> str:
        return quote(fields.pop(_camel(variable[1]), ""), safe="")

    path = re.sub(r"\{(\w+)\}", filled, getattr(rule, verb))
    if method.client_streaming:
        lines = json.dumps(fields) + "\n"
        types = {"content-type": "application/x-ndjson", **headers}
        return _checked(client.request(verb.upper(), path, content=lines, headers=types))
    if rule.body:
        return _checked(client.request(verb.upper(), path, json=fields, headers=headers))
    return _checked(client.request(verb.upper(), f"{path}?{urlencode(list(_flat(fields)))}", headers=headers))


def _checked(answer: httpx.Response) -> httpx.Response:
    if answer.is_error:
        raise CallRefusedError(_refusal(answer.json()["error"]))
    return answer


def _refusal(error: Json) -> Json:
    details = {detail["@type"].rpartition(".")[2]: detail for detail in error["details"]}
    violations = [one["field"] for one in details.get("BadRequest", {}).get("fieldViolations", ())]
    reason = details.get("ErrorInfo", {}).get("reason", "")
    return {"code": error["code"], "reason": reason, "message": error["message"], "violations": violations}


def _flat(fields: Json, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield fields as a query has them."""
    for name, value in fields.items():
        if name == "metadata":
            yield from ((f"{prefix}metadata[{key}]", one) for key, one in value.items())
        elif isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            for one in value if isinstance(value, list) else [value]:
                yield prefix + name, json.dumps(one) if isinstance(one, bool) else str(one)


def _camel(name: str) -> str:
    return re.sub(r"_(\w)", lambda letter: letter[1].upper(), name)


def _events(text: str) -> Iterator[object]:
    """Yield the messages of a stream that ended well.

    Raises:
        CallRefusedError: it ended with an error.
    """
    for block in text.split("\n\n"):
        lines = dict(line.partition(": ")[::2] for line in block.splitlines() if not line.startswith(":"))
        if lines.get("event") == "error":
            raise CallRefusedError(_refusal(json.loads(lines["data"])["error"]))
        if lines and lines.get("event") != "end":
            yield json.loads(lines["data"])


class HttpPlay(Play):
    """Makes the calls of steps over HTTP, each as its caller."""

    def __init__(self, reached: Json) -> None:
        """Take how to reach the server, as `golden_server` tells it."""
        super().__init__()
        trusted = ssl.create_default_context(cafile=reached["authorities"])
        self._clients = {
            caller: httpx.Client(
                base_url=reached["http"],
                verify=trusted,
                headers={"authorization": f"Bearer {bearer}"} if bearer else {},
                timeout=60,
            )
            for caller, bearer in reached["bearers"].items()
        }

    def replies(self, step: Json, request: Any) -> list[object]:  # noqa: ANN401 - JSON
        """Make a step's call."""
        return list(replies(self._clients[step["as"]], step, request))


if __name__ == "__main__":
    play(HttpPlay)
