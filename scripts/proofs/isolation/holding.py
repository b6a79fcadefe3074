"""Connections that hold on: requests that never end, replies that nobody reads. Reports what they do to the server.

While they are held, another caller asks for health and lists. How much memory and how many connections a server grants
is its own business; these figures show what it is.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from nomemory.evaluation.process_tree import tree
from nomemory.v1 import query_service_pb2 as q
from proofs.isolation import http2
from proofs.isolation.contract import METHODS
from proofs.isolation.world import World, message_of
from proofs.memory import rss_mb
from proofs.subject import Subject

_HELD_S = 5.0
_STREAMS = 10
_LONG, _LONG_CHARS = 20, 25_000
"""Messages in a reply, and how long they are: half a megabyte in all."""

Hold = Callable[[socket.socket], None]


@dataclass(frozen=True, slots=True)
class Held:
    """What was seen while connections were held.

    Attributes:
        accepted: connections that the server let in and kept until the end.
        rss_mb: memory of its processes before, and at most while they were held; None: not our server.
        health_ms: the longest health check of another caller meanwhile; None: there was no answer.
        list_ms: the longest list of another caller meanwhile.
    """

    name: str
    connections: int
    accepted: int
    rss_mb: tuple[float, float] | None
    health_ms: float | None
    list_ms: float | None


def hold_unfinished(target: str, world: World, subject: Subject | None, connections: int) -> Held:
    """Begin a request on each of so many connections, and end none."""

    def begin(connection: socket.socket) -> None:
        ask = http2.request_headers(METHODS["WriteMessages"].path, target, ())
        connection.sendall(http2.PREFACE + http2.settings())
        for stream in range(1, 2 * _STREAMS, 2):
            connection.sendall(http2.frame(http2.HEADERS, http2.END_HEADERS, stream, ask))
        size = b"\0" + (1 << 20).to_bytes(4, "big")
        connection.sendall(http2.frame(http2.DATA, 0, 1, size + b"a" * 10_000))

    return _hold("requests that never end", target, world, subject, connections, begin)


def hold_unread(target: str, world: World, subject: Subject | None, connections: int) -> Held:
    """Ask for pages on each of so many connections, and read none of the replies."""
    reader = next(one for one in world.attackers if one.stored_as)
    world.write([message_of(reader.stored_as, f"long-{n}", "x " * (_LONG_CHARS // 2), n) for n in range(_LONG)])
    asked = q.ListMessagesRequest(user_id=reader.user_id).SerializeToString()

    def begin(connection: socket.socket) -> None:
        ask = http2.request_headers(METHODS["ListMessages"].path, target, reader.metadata)
        connection.sendall(http2.PREFACE + http2.settings(window=2**31 - 1))
        connection.sendall(http2.frame(http2.WINDOW_UPDATE, 0, 0, (2**31 - 1 - 65_535).to_bytes(4, "big")))
        for stream in range(1, 2 * _STREAMS, 2):
            connection.sendall(
                http2.frame(http2.HEADERS, http2.END_HEADERS, stream, ask)
                + http2.frame(http2.DATA, http2.END_STREAM, stream, http2.grpc_message(asked))
            )

    return _hold("replies that nobody reads", target, world, subject, connections, begin)


def _hold(name: str, target: str, world: World, subject: Subject | None, connections: int, begin: Hold) -> Held:
    before = _rss(subject)
    with ExitStack() as stack:
        held = [one for _ in range(connections) if (one := _begun(target, begin, stack))]
        health, listing, most = _watch(world, subject, before)
        accepted = sum(map(_is_open, held))
    return Held(name, connections, accepted, (before, most) if subject else None, health, listing)


def _begun(target: str, begin: Hold, stack: ExitStack) -> socket.socket | None:
    with suppress(OSError):
        connection = stack.enter_context(http2.connect(target))
        begin(connection)
        return connection
    return None


def _is_open(connection: socket.socket) -> bool:
    """Return whether a connection is still there: what came on it is left unread but for a look at it."""
    connection.settimeout(0)
    try:
        return bool(connection.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return True
    except OSError:
        return False


def _watch(world: World, subject: Subject | None, most: float) -> tuple[float | None, float | None, float]:
    """Call as somebody else for a while; return the longest waits and the most memory."""
    health: list[float | None] = []
    lists: list[float | None] = []
    checks = health_pb2_grpc.HealthStub(world.channel)
    listing = METHODS["ListMessages"]
    request = q.ListMessagesRequest(user_id=world.victims[0].user_id).SerializeToString()
    ends = time.monotonic() + _HELD_S
    while time.monotonic() < ends:
        health.append(_timed(lambda: checks.Check(health_pb2.HealthCheckRequest(), timeout=5)))
        outcome = listing.call(world.channel, request, world.owner, timeout_s=5)
        lists.append(1000 * outcome.seconds if outcome.code is grpc.StatusCode.OK else None)
        most = max(most, _rss(subject))
        time.sleep(0.05)
    return _longest(health), _longest(lists), most


def _timed(call: Callable[[], object]) -> float | None:
    began = time.perf_counter()
    try:
        call()
    except grpc.RpcError:
        return None
    return 1000 * (time.perf_counter() - began)


def _longest(waits: Sequence[float | None]) -> float | None:
    answered = [one for one in waits if one is not None]
    return max(answered) if len(answered) == len(waits) else None


def _rss(subject: Subject | None) -> float:
    return sum(map(rss_mb, tree(subject.pid))) if subject else 0.0
