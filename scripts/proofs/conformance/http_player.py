"""Player of the golden scenario over HTTP, which builds requests from the `google.api.http` annotations.

Usage: `python -m proofs.conformance.http_player SCENARIO CONNECTION OUTPUT`.
"""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Iterator, Mapping
from typing import Any, Final

import httpx
from google.protobuf.descriptor import MethodDescriptor

from proofs.conformance.play import Json, RejectedCallError, ScenarioPlayer, run_player
from proofs.contract import METHODS
from proofs.http_requests import encode_http_request

_ITEM_FIELDS: Final = {
    "ListMessages": "items",
    "LexicalSearch": "items",
    "ListConversations": "conversations",
    "ListUsers": "users",
}
"""Name of the item field in the pages of each listing."""


def make_call(client: httpx.Client, step: Json, request: Json) -> Iterator[object]:
    """Make the call of a step; yield its reply, the replies of a stream, or all items of a listing.

    Raises:
        RejectedCallError: the server returned an error.
    """
    method = METHODS[step["call"]].descriptor
    headers = {"x-user-id-bin": _encode_binary_metadata(step["for"])} if "for" in step else {}
    if step.get("all"):
        yield from _iterate_items(client, method, request, headers)
        return
    response = _send_request(client, method, request, headers)
    if method.server_streaming:
        yield from _parse_events(response.text)
    else:
        yield response.json()


def _encode_binary_metadata(user_id: str) -> str:
    return base64.b64encode(user_id.encode()).decode()


def _iterate_items(
    client: httpx.Client, method: MethodDescriptor, request: Json, headers: Mapping[str, str]
) -> Iterator[Any]:
    cursor = ""
    while True:
        page = _send_request(client, method, {**request, "cursor": cursor} if cursor else request, headers).json()
        yield from page.get(_ITEM_FIELDS[method.name], ())
        cursor = page.get("nextCursor", "")
        if not cursor:
            return


def _send_request(
    client: httpx.Client, method: MethodDescriptor, request: Json, headers: Mapping[str, str]
) -> httpx.Response:
    encoded = encode_http_request(method, request)
    headers_sent = {**{name: value.decode() for name, value in encoded.headers}, **headers}
    return _raise_for_error(client.request(encoded.verb, encoded.path, content=encoded.body, headers=headers_sent))


def _raise_for_error(response: httpx.Response) -> httpx.Response:
    if response.is_error:
        raise RejectedCallError(_build_error_outcome(response.json()["error"]))
    return response


def _build_error_outcome(error: Json) -> Json:
    details = {detail["@type"].rpartition(".")[2]: detail for detail in error["details"]}
    violations = [item["field"] for item in details.get("BadRequest", {}).get("fieldViolations", ())]
    reason = details.get("ErrorInfo", {}).get("reason", "")
    return {"code": error["code"], "reason": reason, "message": error["message"], "violations": violations}


def _parse_events(text: str) -> Iterator[object]:
    """Yield the messages of an event stream.

    Raises:
        RejectedCallError: the stream ended with an error.
    """
    for block in text.split("\n\n"):
        lines = dict(line.partition(": ")[::2] for line in block.splitlines() if not line.startswith(":"))
        if lines.get("event") == "error":
            raise RejectedCallError(_build_error_outcome(json.loads(lines["data"])["error"]))
        if lines and lines.get("event") != "end":
            yield json.loads(lines["data"])


class HttpPlayer(ScenarioPlayer):
    """Player that makes the calls over HTTP with the credentials of each caller."""

    def __init__(self, connection: Json) -> None:
        """Create a client for each caller of a connection file."""
        super().__init__()
        trusted = ssl.create_default_context(cafile=connection["authorities"])
        self._clients = {
            caller: httpx.Client(
                base_url=connection["http"],
                verify=trusted,
                headers={"authorization": f"Bearer {bearer}"} if bearer else {},
                timeout=60,
            )
            for caller, bearer in connection["bearers"].items()
        }

    def call(self, step: Json, request: Any) -> list[object]:  # noqa: ANN401 - JSON
        """Make the call of a step, and return its replies."""
        return list(make_call(self._clients[step["as"]], step, request))


if __name__ == "__main__":
    run_player(HttpPlayer)
