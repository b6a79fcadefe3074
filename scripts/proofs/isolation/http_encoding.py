"""Calls of the contract as requests of HTTP: by the annotations, and by the Connect protocol in both of its formats."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from google.api import annotations_pb2
from google.protobuf import json_format
from google.protobuf.message import DecodeError, Message

from proofs.isolation.contract import Metadata, Method
from proofs.isolation.http1 import Header, HttpRequest

LINES = b"application/x-ndjson"
EVENTS = b"text/event-stream"
ENVELOPED = b"application/connect+"
_JSON = b"application/json"
_FORMS = 4
_PATH_MAX = 16_000
"""A path that is longer may have no room in a head."""


def encoded(method: Method, request: bytes, metadata: Metadata) -> HttpRequest:
    """Return a call as one request. Its form follows from the method and the length: the same call has the same form.

    What is damaged cannot be written as JSON, and goes by Connect in the binary format.
    """
    form = len(request) + zlib.crc32(method.path.encode())
    headers = tuple(_headers(metadata))
    fields = _fields(method, request)
    if fields is None or form % _FORMS == 0:
        return _by_connect(method, request, b"proto", headers)
    annotated = by_annotation(method, fields, headers, LINES if form % 3 else EVENTS)
    if form % _FORMS == 1 or len(annotated.path) > _PATH_MAX:
        return _by_connect(method, _dumped(fields), b"json", headers)
    return annotated


def by_annotation(
    method: Method, fields: Mapping[str, Any], headers: tuple[Header, ...], accepted: bytes
) -> HttpRequest:
    """Return a call as its annotation has it."""
    rule = method.descriptor.GetOptions().Extensions[annotations_pb2.http]
    verb = rule.WhichOneof("pattern")
    path: str = getattr(rule, verb)
    left = dict(fields)
    for name in list(left):
        if f"{{{name}}}" in path:
            path = path.replace(f"{{{name}}}", quote(left.pop(name), safe=""))
    for name in method.descriptor.input_type.fields_by_name:
        path = path.replace(f"{{{name}}}", "")
    headers = (*headers, ("accept", accepted)) if method.descriptor.server_streaming else headers
    if rule.body:
        media_type = LINES if method.descriptor.client_streaming else _JSON
        return HttpRequest(verb.upper(), path.encode(), (*headers, ("content-type", media_type)), _dumped(left))
    query = "&".join(f"{quote(name, safe='.[]')}={quote(value, safe='')}" for name, value in _flat(left))
    return HttpRequest(verb.upper(), (f"{path}?{query}" if query else path).encode(), headers)


def enveloped(raw: bytes) -> bytes:
    """Put a message into an envelope of Connect."""
    return b"\0" + len(raw).to_bytes(4, "big") + raw


def _by_connect(method: Method, raw: bytes, format_: bytes, headers: tuple[Header, ...]) -> HttpRequest:
    streams = method.descriptor.client_streaming or method.descriptor.server_streaming
    media_type = (ENVELOPED if streams else b"application/") + format_
    body = enveloped(raw) if streams else raw
    return HttpRequest("POST", method.path.encode(), (*headers, ("content-type", media_type)), body)


def _fields(method: Method, request: bytes) -> dict[str, Any] | None:
    """Return a request as JSON has it; None: it cannot be written so."""
    message: Message = method.request_type()
    try:
        message.ParseFromString(request)
        return json_format.MessageToDict(message, preserving_proto_field_name=True)
    except (DecodeError, ValueError, json_format.SerializeToJsonError):
        return None


def _headers(metadata: Metadata) -> Iterator[Header]:
    for name, value in metadata:
        if isinstance(value, bytes):
            yield name, base64.b64encode(value)
        else:
            yield name, value.encode()


def _flat(fields: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Return fields as a query has them."""
    for name, value in fields.items():
        if isinstance(value, dict) and name == "metadata":
            yield from ((f"{prefix}{name}[{key}]", str(one)) for key, one in value.items())
        elif isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            for one in value if isinstance(value, list) else [value]:
                yield prefix + name, json.dumps(one) if isinstance(one, bool | dict) else str(one)


def _dumped(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(fields, ensure_ascii=False).encode("utf-8", "surrogatepass")
