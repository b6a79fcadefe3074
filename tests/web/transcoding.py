"""Contract requests as HTTP requests, built from the annotations independently of the server."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import httpx
from google.api import annotations_pb2
from google.protobuf import json_format
from google.protobuf.message import Message as ProtoMessage
from identity.contract import RpcMethod


def http_request(method: RpcMethod, request: ProtoMessage) -> tuple[str, str, Any]:
    """Return the method, the path with its query string, and the body; None: no body."""
    rule = method.descriptor.GetOptions().Extensions[annotations_pb2.http]
    verb = rule.WhichOneof("pattern")
    path: str = getattr(rule, verb)
    fields = json_format.MessageToDict(request, preserving_proto_field_name=True)
    for name in list(fields):
        if f"{{{name}}}" in path:
            path = path.replace(f"{{{name}}}", quote(fields.pop(name), safe=""))
    if rule.body:
        return verb.upper(), path, fields
    query = "&".join(f"{quote(name)}={quote(value)}" for name, value in flat(fields))
    return verb.upper(), f"{path}?{query}" if query else path, None


def flat(fields: dict[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Return fields as query parameters."""
    pairs: list[tuple[str, str]] = []
    for name, value in fields.items():
        if name == "metadata":
            pairs += [(f"{prefix}metadata[{key}]", item) for key, item in value.items()]
        elif isinstance(value, dict):
            pairs += flat(value, f"{prefix}{name}.")
        else:
            pairs += [(prefix + name, str(item)) for item in (value if isinstance(value, list) else [value])]
    return pairs


def send(client: httpx.Client, method: RpcMethod, request: ProtoMessage, headers: dict[str, str]) -> httpx.Response:
    """Send a request by its HTTP rule."""
    verb, path, body = http_request(method, request)
    if body is None:
        return client.request(verb, path, headers=headers)
    if method.descriptor.client_streaming:
        lines = json.dumps(body) + "\n"
        return client.request(verb, path, content=lines, headers=headers | {"content-type": "application/x-ndjson"})
    return client.request(verb, path, json=body, headers=headers)


def events(text: str) -> list[tuple[str, Any]]:
    """Return the events of a stream with their names."""
    event_list = []
    for block in text.split("\n\n"):
        lines = dict(line.partition(": ")[::2] for line in block.splitlines() if not line.startswith(":"))
        if "data" in lines:
            event_list.append((lines.get("event", "message"), json.loads(lines["data"])))
    return event_list


def replies(method: RpcMethod, response: httpx.Response) -> list[ProtoMessage]:
    """Return the messages of a response."""
    assert response.status_code == 200, response.text
    if method.descriptor.server_streaming:
        read = events(response.text)
        assert read[-1] == ("end", {})
        bodies = [data for name, data in read if name == "message"]
    else:
        bodies = [response.json()]
    return [json_format.ParseDict(body, method.reply_type()) for body in bodies]
