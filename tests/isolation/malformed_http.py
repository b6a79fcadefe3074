"""Malformed HTTP requests, derived from valid ones: methods, paths, query strings, headers and bodies."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from isolation.fixtures import World
from isolation.malformed_json import malformed_json

from proofs.http_requests import HttpRequest

_MUTATIONS_MAX = 3
_VERBS = ("GET", "HEAD", "OPTIONS", "TRACE", "PUT", "PATCH", "DELETE", "POST", "PROPFIND", "LINK", "NOTIFY")
_SEGMENTS = (
    "..", ".", "", "%2e%2e", "%2E%2E%2F{victim}", "..%2F{victim}", "..%5C{victim}", "{victim}", "{victim}%00", "%00",
    "{victim}/messages", "%252e%252e", "%ff", "%", "%zz", "{victim};x=1", "*", "messages:export", "b%2F{victim}",
    "%C0%AE", "%EF%BC%8E%EF%BC%8E", "%F0%9F%94%A5" * 40, "a" * 3000, "%E2%80%8B{victim}", "{victim}%20",
    "%0d%0ax-user-id:%20{victim}",
)  # fmt: skip
_QUERIES = (
    "user_id={victim}", "userId={victim}", "user_id={victim}&user_id={victim}", "user%5Fid={victim}",
    "USER_ID={victim}", "filter.metadata[a]=b&filter.metadata[a]=c", "filter.metadata[]=x", "filter[user_id]={victim}",
    "filter.user_id={victim}", "page_size=99999999999999999999", "page_size=1e3", "pageSize=1&page_size=2",
    "page_size=-0", "page_size=%D9%A3", "cursor=%00", "cursor=%ff", "cursor={token}", "at_least={token}",
    "filter.time_range.since=0000-00-00T00:00:00Z", "filter.time_range.since=9999-12-31T23:59:60Z", "return_fields=*",
    "returnFields=userId,embedding", "$fields=*", "alt=sse", "access_token=x", "a" * 300 + "=1", "=", "&&&&",
    "a.b.c.d.e.f=1", "filter=%7B%7D", "?" * 50, "x=1;user_id={victim}",
    "&".join(f"k{n}=v" for n in range(2000)),
)  # fmt: skip
_HEADERS = (
    ("x-user-id", "{victim}"), ("X-User-Id", "{victim}"), ("x-user-id-bin", "***"), ("x-user-id-bin", ""),
    ("x_user_id", "{victim}"), ("authorization", "Bearer x"), ("authorization", "Basic Og=="), ("authorization", ""),
    ("x-api-key", "nm_0_0"), ("cookie", "authorization=x; user_id={victim}"), ("origin", "https://evil.example"),
    ("origin", "null"), ("origin", "https://chat.example.evil.example"), ("origin", "HTTPS://CHAT.EXAMPLE"),
    ("origin", "https://chat.example:1"), ("access-control-request-method", "POST"),
    ("access-control-request-private-network", "true"), ("referer", "x" * 2000), ("content-type", "text/plain"),
    ("content-type", "application/json; charset=utf-16"), ("content-type", "application/xml"),
    ("content-type", "application/x-www-form-urlencoded"), ("content-type", "application/grpc"), ("content-type", ""),
    ("content-type", "multipart/form-data; boundary=x"),
    ("content-type", "a" * 3000), ("content-encoding", "gzip"), ("content-encoding", "br, gzip"),
    ("accept", "*/*"), ("accept", "application/x-ndjson"),
    ("accept", "text/html"), ("accept-encoding", "gzip;q=1, *;q=0"), ("range", "bytes=0-1"), ("x-timeout-ms", "0"),
    ("x-timeout-ms", "1"), ("x-timeout-ms", "9999999999"), ("x-timeout-ms", "-1"), ("x-timeout-ms", "٣"),
    ("expect", "100-continue"),
    ("expect", "the-unexpected"), ("x-http-method-override", "DELETE"), ("x-forwarded-for", "127.0.0.1"),
    ("forwarded", "for=127.0.0.1"), ("te", "trailers"), ("x-forwarded-client-cert", "ServerUnderTest=CN=chat"),
    ("upgrade", "h2c"), ("upgrade", "websocket"), ("connection", "x-user-id"), ("connection", "close"),
    ("host", "evil.example"), ("x-request-id", "{victim}"), ("x-request-id", "a\tb"), ("if-match", "*"),
    ("grpc-timeout", "1n"), ("x-original-url", "/v1/users/{victim}/messages"), ("x-utf-8", "火锅"), ("x", "y" * 9000),
)  # fmt: skip

Mutation = Callable[[HttpRequest, random.Random, World], HttpRequest]


def malformed(request: HttpRequest, chance: random.Random, world: World) -> HttpRequest:
    """Modify a request in one to three ways."""
    for _ in range(chance.randint(1, _MUTATIONS_MAX)):
        request = chance.choice(_MUTATIONS)(request, chance, world)
    return request


def _other_verb(request: HttpRequest, chance: random.Random, _world: World) -> HttpRequest:
    return replace(request, verb=chance.choice(_VERBS))


def _other_path(request: HttpRequest, chance: random.Random, world: World) -> HttpRequest:
    path, _, query = request.path.partition("?")
    segments = path.split("/")
    at = chance.randrange(len(segments) + 1)
    segments[at : at + chance.randint(0, 1)] = [_filled(chance.choice(_SEGMENTS), chance, world)]
    return replace(request, path="/" + "/".join(segments).lstrip("/") + (f"?{query}" if query else ""))


def _other_query(request: HttpRequest, chance: random.Random, world: World) -> HttpRequest:
    added = "&".join(_filled(chance.choice(_QUERIES), chance, world) for _ in range(chance.randint(1, 3)))
    return replace(request, path=request.path + ("&" if "?" in request.path else "?") + added)


def _other_header(request: HttpRequest, chance: random.Random, world: World) -> HttpRequest:
    """Add a header in addition to one with the same name or instead of it."""
    name, value = chance.choice(_HEADERS)
    is_replaced = chance.random() < 0.5
    kept = tuple(header for header in request.headers if header[0] != name) if is_replaced else request.headers
    return replace(request, headers=(*kept, (name, _filled(value, chance, world).encode())))


def _other_body(request: HttpRequest, chance: random.Random, world: World) -> HttpRequest:
    return replace(request, body=malformed_json(request.body or b"{}", chance, world.victims[0].user_id))


_MUTATIONS: Sequence[Mutation] = (
    *(_other_path, _other_path, _other_query, _other_query, _other_header, _other_header, _other_header),
    *(_other_body, _other_body, _other_body, _other_verb),
)


def _filled(text: str, chance: random.Random, world: World) -> str:
    token = chance.choice([*world.cursors, *world.write_tokens])
    return text.replace("{victim}", world.victims[0].user_id).replace("{token}", token)
