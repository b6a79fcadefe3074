"""Plays the golden scenario over HTTP, as a program without stubs makes the calls from the annotations.

`python -m proofs.conformance.http_player SCENARIO SERVER WRITTEN`.
"""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Iterator, Mapping
from typing import Any, Final

import httpx
from google.protobuf.descriptor import MethodDescriptor

from proofs.conformance.play import CallRefusedError, Json, Play, play
from proofs.contract import METHODS
from proofs.http_requests import http_request

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
    method = METHODS[step["call"]].descriptor
    headers = {"x-user-id-bin": _binary(step["for"])} if "for" in step else {}
    if step.get("all"):
        yield from _listed(client, method, request, headers)
        return
    answer = _send(client, method, request, headers)
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
    encoded = http_request(method, request)
    sent = {**{name: value.decode() for name, value in encoded.headers}, **headers}
    return _checked(client.request(encoded.verb, encoded.path, content=encoded.body, headers=sent))


def _checked(answer: httpx.Response) -> httpx.Response:
    if answer.is_error:
        raise CallRefusedError(_refusal(answer.json()["error"]))
    return answer


def _refusal(error: Json) -> Json:
    details = {detail["@type"].rpartition(".")[2]: detail for detail in error["details"]}
    violations = [item["field"] for item in details.get("BadRequest", {}).get("fieldViolations", ())]
    reason = details.get("ErrorInfo", {}).get("reason", "")
    return {"code": error["code"], "reason": reason, "message": error["message"], "violations": violations}


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
