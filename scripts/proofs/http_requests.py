"""Conversion of RPC requests to HTTP requests, based on the `google.api.http` annotations."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlencode

from google.api import annotations_pb2
from google.protobuf.descriptor import MethodDescriptor

Json = Mapping[str, Any]

LINES: Final = b"application/x-ndjson"


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """An HTTP request; `path` includes the query string, and `body` is None for methods without a body."""

    verb: str
    path: str
    headers: tuple[tuple[str, bytes], ...] = ()
    body: bytes | None = None


def encode_http_request(method: MethodDescriptor, request: Json) -> HttpRequest:
    """Encode a protobuf JSON request as an HTTP request, according to the annotation of the method."""
    rule = method.GetOptions().Extensions[annotations_pb2.http]
    verb = rule.WhichOneof("pattern")
    fields = dict(request)

    def substitute_variable(match: re.Match[str]) -> str:
        return quote(str(fields.pop(_to_camel_case(match[1]), "")), safe="")

    path = re.sub(r"\{(\w+)\}", substitute_variable, getattr(rule, verb))
    if rule.body:
        media_type = LINES if method.client_streaming else b"application/json"
        body = json.dumps(fields, ensure_ascii=False).encode("utf-8", "surrogatepass")
        return HttpRequest(verb.upper(), path, (("content-type", media_type),), body)
    query = urlencode(list(_flatten_fields(fields)), quote_via=quote)
    return HttpRequest(verb.upper(), f"{path}?{query}" if query else path)


def _flatten_fields(fields: Json, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield query parameters: `filter.role`, `filter.metadata[topic]`; lists become repeated parameters."""
    for name, value in fields.items():
        if name == "metadata":
            yield from ((f"{prefix}metadata[{key}]", entry) for key, entry in value.items())
        elif isinstance(value, dict):
            yield from _flatten_fields(value, f"{prefix}{name}.")
        else:
            for item in value if isinstance(value, list) else [value]:
                yield prefix + name, json.dumps(item) if isinstance(item, bool) else str(item)


def _to_camel_case(name: str) -> str:
    return re.sub(r"_(\w)", lambda letter: letter[1].upper(), name)
