"""Requests of HTTP as only a hand would write them, drawn by chance: odd verbs, paths, queries, headers and bodies."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import grpc

from proofs.isolation.contract import METHODS, Outcome
from proofs.isolation.drawing import Drawing
from proofs.isolation.fuzzing import values
from proofs.isolation.http1 import HttpConnection, HttpRequest, NoAnswerError
from proofs.isolation.http_encoding import encoded
from proofs.isolation.judge import Judge
from proofs.isolation.odd_json import odd_json
from proofs.isolation.world import World

ALLOWED_ORIGIN = "https://chat.example"
"""The one origin that a server of one's own lets pages call from."""

_THREADS = 8
_TIMEOUT_S = 30.0
_ODDITIES_MAX = 3
_VERBS = ("GET", "HEAD", "OPTIONS", "TRACE", "PUT", "PATCH", "DELETE", "POST", "PROPFIND", "LINK", "NOTIFY")
_SEGMENTS = (
    "..", ".", "", "%2e%2e", "%2E%2E%2F{victim}", "..%2F{victim}", "..%5C{victim}", "{victim}", "{victim}%00", "%00",
    "{victim}/messages", "%252e%252e", "%ff", "%", "%zz", "{victim};x=1", "*", "messages:export", "b%2F{victim}",
    "%C0%AE", "%EF%BC%8E%EF%BC%8E", "%F0%9F%94%A5" * 40, "a" * 3000, "%E2%80%8B{victim}", "{victim}%20",
    "%0d%0ax-user-id:%20{victim}",
)  # fmt: skip
_PARTS = (
    "user_id={victim}", "userId={victim}", "user_id={victim}&user_id={victim}", "user%5Fid={victim}",
    "USER_ID={victim}", "filter.metadata[a]=b&filter.metadata[a]=c", "filter.metadata[]=x", "filter[user_id]={victim}",
    "filter.user_id={victim}", "page_size=99999999999999999999", "page_size=1e3", "pageSize=1&page_size=2",
    "page_size=-0", "page_size=%D9%A3", "cursor=%00", "cursor=%ff", "cursor={token}", "at_least={token}",
    "filter.time_range.since=0000-00-00T00:00:00Z", "filter.time_range.since=9999-12-31T23:59:60Z", "return_fields=*",
    "returnFields=userId,embedding", "$fields=*", "alt=sse", "access_token=x", "a" * 300 + "=1", "=", "&&&&",
    "a.b.c.d.e.f=1", "filter=%7B%7D", "?" * 50, "x=1;user_id={victim}",
    "connect=v1&encoding=json&message=%7B%22user_id%22%3A%22{victim}%22%7D", "&".join(f"k{n}=v" for n in range(2000)),
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
    ("content-type", "multipart/form-data; boundary=x"), ("content-type", "application/connect+json"),
    ("content-type", "a" * 3000), ("content-encoding", "gzip"), ("content-encoding", "br, gzip"),
    ("connect-content-encoding", "gzip"), ("accept", "*/*"), ("accept", "application/x-ndjson"),
    ("accept", "text/html"), ("accept-encoding", "gzip;q=1, *;q=0"), ("range", "bytes=0-1"), ("x-timeout-ms", "0"),
    ("x-timeout-ms", "1"), ("x-timeout-ms", "9999999999"), ("x-timeout-ms", "-1"), ("x-timeout-ms", "٣"),
    ("connect-timeout-ms", "5"), ("connect-protocol-version", "9"), ("expect", "100-continue"),
    ("expect", "the-unexpected"), ("x-http-method-override", "DELETE"), ("x-forwarded-for", "127.0.0.1"),
    ("forwarded", "for=127.0.0.1"), ("te", "trailers"), ("x-forwarded-client-cert", "Subject=CN=chat"),
    ("upgrade", "h2c"), ("upgrade", "websocket"), ("connection", "x-user-id"), ("connection", "close"),
    ("host", "evil.example"), ("x-request-id", "{victim}"), ("x-request-id", "a\tb"), ("if-match", "*"),
    ("grpc-timeout", "1n"), ("x-original-url", "/v1/users/{victim}/messages"), ("x-utf-8", "火锅"), ("x", "y" * 9000),
)  # fmt: skip

Oddity = Callable[[HttpRequest, random.Random, World], HttpRequest]


def attack_with_odd_requests(target: str, world: World, judge: Judge, requests: int, seed: int) -> None:
    """Send so many odd requests; the judge sees what comes of them. Each thread's requests follow from its seed."""
    shares = [requests // _THREADS + (n < requests % _THREADS) for n in range(_THREADS)]

    def work(n: int) -> None:
        _attack(target, world, judge, shares[n], seed + n)

    with ThreadPoolExecutor(_THREADS) as threads:
        list(threads.map(work, range(_THREADS)))


def _attack(target: str, world: World, judge: Judge, requests: int, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - repeatable, not secret
    connection = HttpConnection(target)
    attackers = [one for one in world.attackers if one.may_try_others]
    for n in range(requests):
        at = min(chance.randrange(len(attackers)), chance.randrange(len(attackers)))  # those who are let in, more often
        method, attacker = chance.choice(list(METHODS.values())), attackers[at]
        drawing = Drawing(chance, values(world, attacker), world.dimension)
        request = encoded(method, drawing.request(method.descriptor.input_type), attacker.metadata)
        for _ in range(chance.randint(1, _ODDITIES_MAX)):
            request = chance.choice(_ODDITIES)(request, chance, world)
        what = f"odd requests, thread's seed {seed}, request {n}: {request.verb} for {method.name} by {attacker.name}"
        judge.see(what, _outcome(connection, request, judge, what))


def _outcome(connection: HttpConnection, request: HttpRequest, judge: Judge, what: str) -> Outcome:
    """Send a request. Whatever it is, an answer comes, and one that is an error says so as the contract does."""
    try:
        answer = connection.ask(request, _TIMEOUT_S)
    except TimeoutError:
        return Outcome(grpc.StatusCode.DEADLINE_EXCEEDED, b"", _TIMEOUT_S, is_from_server=False)
    except (OSError, NoAnswerError) as error:
        return Outcome(grpc.StatusCode.UNAVAILABLE, b"", 0.0, is_from_server=False, details=str(error))
    if answer.header("access-control-allow-origin") not in {"", ALLOWED_ORIGIN}:
        judge.found("origin", f"{what}: {request.header('origin')!r} may call")
    code = _CODES.get(answer.status, grpc.StatusCode.UNKNOWN)
    return Outcome(code, answer.as_bytes(), 0.0, is_from_server=True, details=f"{answer.status} {answer.body[:150]!r}")


_CODES = {
    200: grpc.StatusCode.OK,
    204: grpc.StatusCode.OK,
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    403: grpc.StatusCode.PERMISSION_DENIED,
    404: grpc.StatusCode.NOT_FOUND,
    405: grpc.StatusCode.NOT_FOUND,
    409: grpc.StatusCode.ABORTED,
    413: grpc.StatusCode.INVALID_ARGUMENT,
    415: grpc.StatusCode.INVALID_ARGUMENT,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    500: grpc.StatusCode.INTERNAL,
    501: grpc.StatusCode.UNIMPLEMENTED,
    503: grpc.StatusCode.UNAVAILABLE,
    504: grpc.StatusCode.DEADLINE_EXCEEDED,
}


def _odd_verb(request: HttpRequest, chance: random.Random, _world: World) -> HttpRequest:
    return replace(request, verb=chance.choice(_VERBS))


def _odd_path(request: HttpRequest, chance: random.Random, world: World) -> HttpRequest:
    path, _, query = request.path.partition(b"?")
    segments = path.split(b"/")
    at = chance.randrange(len(segments) + 1)
    segments[at : at + chance.randint(0, 1)] = [_drawn(_SEGMENTS, chance, world)]
    return replace(request, path=b"/" + b"/".join(segments).lstrip(b"/") + (b"?" + query if query else b""))


def _odd_query(request: HttpRequest, chance: random.Random, world: World) -> HttpRequest:
    parts = b"&".join(_drawn(_PARTS, chance, world) for _ in range(chance.randint(1, 3)))
    return replace(request, path=request.path + (b"&" if b"?" in request.path else b"?") + parts)


def _odd_header(request: HttpRequest, chance: random.Random, world: World) -> HttpRequest:
    name, value = chance.choice(_HEADERS)
    given = (name, _filled(value, chance, world))
    if name == "host":
        return replace(request, host=given[1])
    if chance.random() < 0.5:  # noqa: PLR2004 - as often in the place of the own as beside it
        request = replace(request, headers=tuple(one for one in request.headers if one[0] != name))
    return request.with_headers(given)


def _odd_body(request: HttpRequest, chance: random.Random, world: World) -> HttpRequest:
    return replace(request, body=odd_json(request.body or b"{}", chance, world.victims[0].user_id))


def _old_version(request: HttpRequest, _chance: random.Random, _world: World) -> HttpRequest:
    return replace(request, version=b"HTTP/1.0")


_ODDITIES: Sequence[Oddity] = (
    *(_odd_path, _odd_path, _odd_query, _odd_query, _odd_header, _odd_header, _odd_header),
    *(_odd_body, _odd_body, _odd_body, _odd_verb, _old_version),
)


def _drawn(texts: Sequence[str], chance: random.Random, world: World) -> bytes:
    return _filled(chance.choice(texts), chance, world)


def _filled(text: str, chance: random.Random, world: World) -> bytes:
    token = chance.choice([*world.cursors, *world.write_tokens])
    return text.replace("{victim}", world.victims[0].user_id).replace("{token}", token).encode()
