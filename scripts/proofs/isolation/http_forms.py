"""Bytes on the port of HTTP/1.1: requests whose ends can be taken in two ways, heads that never end, what is no HTTP.

Within most of them stands another request. A server that answers it has taken a body for a request. Something in front
of the server that reads the same bytes in another way would let a caller speak in another one's name.
"""

from __future__ import annotations

import gzip
import random
from collections.abc import Iterator

from proofs.isolation import http2
from proofs.isolation.raw_bytes import FORGED_LOG_LINE, PATH_THAT_IS_NO_TEXT
from proofs.isolation.way import Form
from proofs.isolation.world import World

_SMUGGLED = b"smuggled-by-the-suite"
_INNER = b"GET /v1/status HTTP/1.1\r\nhost: localhost\r\nx-request-id: " + _SMUGGLED + b"\r\n\r\n"
_LENGTH = b"content-length: %d" % len(_INNER)
_CHUNKED = b"transfer-encoding: chunked"
_END = b"0\r\n\r\n"
_JSON = b"content-type: application/json"
_LENGTHS = (
    b"+%d", b"-%d", b"0x%x", b"%d, %d", b"%d %d", b"%d,", b"%d\x0b", b"%de0", b"0%d\0", b"\xc2\xb2%d", b"%d.0",
    b"99999999999999999999%d", b"",
)  # fmt: skip
_CODINGS = (
    b"xchunked", b"chunked, identity", b"chunked, gzip", b"identity", b"chunked\x0b", b"\x0bchunked", b'"chunked"',
    b"chunked;q=1", b"gzip, chunked", b"\0chunked", b"chunked, chunked", b"deflate", b"", b"CHUNKED,",
)  # fmt: skip
_CHUNK_SIZES = (
    b"0x0", b"+0", b"-0", b"-1", b"0_0", b"F" * 17, b"0 ", b" 0", b"0\n", b"00;\n", b"g", b"",
)  # fmt: skip
_NO_HEADERS = (
    b"x", b": x", b"x y: z", b"x\0: y", b"x: \0", b"x\x0b: y", b"\xff: y", b"x:\x08", b"(x): y", b"content-length : 5",
    b"transfer-encoding : chunked", b" x: folded first", b"x:y\r\r",
)  # fmt: skip


def http_forms(target: str, world: World, chance: random.Random) -> Iterator[Form]:
    """Make bytes for a server at HOST:PORT."""
    yield from _no_http(target, chance)
    yield from _two_ends()
    yield from _broken_lines()
    yield from _unread_bodies()
    yield from _large(world)


def _head(line: bytes, *headers: bytes, host: bytes = b"localhost") -> bytes:
    return b"\r\n".join([line, b"host: " + host, *headers, b"", b""])


def _post(*headers: bytes) -> bytes:
    return _head(b"POST /v1/messages HTTP/1.1", _JSON, *headers)


def _hidden(name: str, sent: bytes) -> Form:
    return Form(name, sent, b"x-request-id: " + _SMUGGLED)


def _no_http(target: str, chance: random.Random) -> Iterator[Form]:
    yield Form("nothing", b"")
    yield Form("empty lines", b"\r\n" * 5000)
    yield Form("random bytes", chance.randbytes(5000))
    yield Form("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + chance.randbytes(500))
    yield Form("HTTP/2", http2.PREFACE + http2.settings())
    yield Form("HTTP/0.9", b"GET /healthz\r\n")
    for version in (
        b"HTTP/1.0",
        b"HTTP/1.2",
        b"HTTP/2.0",
        b"HTTP/9.9",
        b"HTTP/1.1 ",
        b"ICE/1.0",
        b"RTSP/1.0",
        b"http/1.1",
    ):
        yield Form(f"version {version.decode()}", _head(b"GET /healthz " + version))
    for verb in (b"TRACE", b"CONNECT", b"PRI", b"M-SEARCH", b"get", b"G\0T", b"QUERY", b"SOURCE", b"BREW"):
        yield _hidden(f"verb {verb!r}", _head(verb + b" /v1/status HTTP/1.1", _LENGTH) + _INNER)
    yield Form("CONNECT and what follows", _head(b"CONNECT localhost:1 HTTP/1.1") + _INNER * 3)
    yield Form("tabs for blanks", _head(b"GET\t/healthz\tHTTP/1.1"))
    yield Form("an absolute path", _head(b"GET http://evil.example/v1/status HTTP/1.1", host=target.encode()))
    yield Form("an absolute path without one", _head(b"GET http://evil.example HTTP/1.1"))
    yield Form("a path that is an asterisk", _head(b"OPTIONS * HTTP/1.1"))
    yield Form("a path with a fragment", _head(b"GET /v1/status#x HTTP/1.1"))
    yield Form(PATH_THAT_IS_NO_TEXT, _head(b"GET /v1/users/\xa2/messages HTTP/1.1"))
    yield Form("a path with a NUL", _head(b"GET /v1/users/\0/messages HTTP/1.1"))
    forged = FORGED_LOG_LINE.encode().replace(b" ", b"%20")
    yield Form("a log line in a path", _head(b"GET /v1/%0a" + forged + b"%0a HTTP/1.1", b"user-agent: \x85" + forged))


def _two_ends() -> Iterator[Form]:
    inner, chunk = _INNER, b"%x\r\n%b\r\n" % (len(_INNER), _INNER)
    yield _hidden("a length and chunks", _post(_LENGTH, _CHUNKED) + _END + inner)
    yield _hidden("chunks and a length", _post(_CHUNKED, b"content-length: 5") + chunk + _END)
    yield _hidden("two lengths", _post(b"content-length: 0", _LENGTH) + inner)
    yield _hidden("two lengths, the other way", _post(_LENGTH, b"content-length: 0") + inner)
    for form in _LENGTHS:
        length = form % ((len(inner),) * form.count(b"%"))
        yield _hidden(f"length {length!r}", _post(b"content-length: " + length) + inner)
    for coding in _CODINGS:
        yield _hidden(f"coding {coding!r}", _post(b"transfer-encoding: " + coding) + chunk + _END)
        yield _hidden(f"coding {coding!r} and a length", _post(b"transfer-encoding: " + coding, _LENGTH) + inner)
    yield _hidden("two codings", _post(_CHUNKED, b"transfer-encoding: identity") + chunk + _END)
    for size in _CHUNK_SIZES:
        yield _hidden(f"a chunk of {size[:9]!r}", _post(_CHUNKED) + size + b"\r\n\r\n" + inner)
    yield _hidden("lone line feeds between chunks", _post(_CHUNKED) + b"2\n{}\n0\n\n" + inner)
    yield _hidden("a chunk longer than it says", _post(_CHUNKED) + b"1\r\n{}\r\n0\r\n\r\n" + inner)
    yield _hidden("what stands behind chunks", _post(_CHUNKED) + b"0\r\nx-request-id: " + _SMUGGLED + b"\r\n\r\n")
    old = _head(b"POST /v1/messages HTTP/1.0", b"connection: keep-alive", _CHUNKED)
    yield _hidden("chunks in HTTP/1.0", old + chunk + _END)


def _broken_lines() -> Iterator[Form]:
    named = b"x-request-id: " + _SMUGGLED
    yield _hidden("a folded header", _head(b"GET /v1/status HTTP/1.1", b"x: y\r\n " + named))
    yield _hidden("a header behind a lone carriage return", _head(b"GET /v1/status HTTP/1.1", b"x: y\r" + named))
    yield _hidden("a folded coding", _post(b"transfer-encoding:\r\n chunked") + _END + _INNER)
    yield _hidden("a length behind a lone line feed", _post(b"x: y\ncontent-length: 0") + _INNER)
    yield _hidden("a head that ends with lone line feeds", _post(_LENGTH).replace(b"\r\n", b"\n") + _INNER)
    for header in _NO_HEADERS:
        yield _hidden(f"no header {header!r}", _post(header, _LENGTH) + _INNER)


def _unread_bodies() -> Iterator[Form]:
    """Requests that are answered without a look at their bodies."""
    for line in (
        b"GET /healthz", b"HEAD /healthz", b"GET /", b"GET /openapi.json", b"GET /nothing", b"PUT /v1/messages",
        b"POST /v1/messages", b"POST /nomemory.v1.QueryService/ListMessages", b"DELETE /v1/users/x",
        b"OPTIONS /v1/messages",
    ):  # fmt: skip
        for length, body in ((_LENGTH, _INNER), (_CHUNKED, b"%x\r\n%b\r\n0\r\n\r\n" % (len(_INNER), _INNER))):
            for more in (
                b"x: y",
                b"expect: 100-continue",
                b"upgrade: websocket\r\nconnection: upgrade",
                b"origin: null",
            ):
                yield _hidden(f"{line.decode()}, {more[:7].decode()}", _head(line + b" HTTP/1.1", length, more) + body)
    asked = b"access-control-request-method: POST"
    yield _hidden(
        "a preflight", _head(b"OPTIONS /v1/x HTTP/1.1", b"origin: https://evil.example", asked, _LENGTH) + _INNER
    )


def _large(world: World) -> Iterator[Form]:
    victim = world.victims[0].user_id.encode()
    yield Form("a head of 100 KB", b"GET / HTTP/1.1\r\nx: " + b"a" * 100_000)
    yield Form("10,000 headers", _head(b"GET /healthz HTTP/1.1", *[b"a: b"] * 10_000))
    yield Form("a chunk with 50 KB behind its size", _post(_CHUNKED) + b"0;" + b"x" * 50_000 + b"\r\n\r\n")
    yield Form("a path of 100 KB", _head(b"GET /" + b"a" * 100_000 + b" HTTP/1.1"))
    yield Form("a body of 2^63", _post(b"content-length: 9223372036854775807") + b"{" * 100)
    yield Form("a chunk of 2^63", _post(_CHUNKED) + b"7fffffffffffffff\r\n" + b"{" * 100)
    yield Form("a body of 20 MB", _post(b"content-length: %d" % (20 << 20)) + b" " * (20 << 20))
    bomb = gzip.compress(b'{"messages": [' + b" " * (64 << 20))
    packed = (b"content-encoding: gzip", b"content-length: %d" % len(bomb))
    yield Form("a bomb", _post(*packed) + bomb)
    yield Form(
        "a bomb for Connect", _head(b"POST /nomemory.v1.QueryService/ListMessages HTTP/1.1", _JSON, *packed) + bomb
    )
    yield Form("1,000 requests ahead", _head(b"GET /healthz HTTP/1.1") * 1000)
    yield Form("calls sent ahead", _head(b"GET /v1/users/%b/messages HTTP/1.1" % victim) * 8)
