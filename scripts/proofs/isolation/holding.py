"""Connections that hold on: requests that never end, replies that nobody reads. Reports what they do to the server.

While they are held, another caller asks for health and lists. How much memory and how many connections a server grants
is its own business; these figures show what it is.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass

import grpc

from evaluation.temporary_server import process_tree
from nomemory.v1 import query_service_pb2 as q
from proofs.isolation import http2
from proofs.isolation.contract import METHODS
from proofs.isolation.transport import Transport
from proofs.isolation.way import Hold
from proofs.isolation.world import Attacker, World, message_of
from proofs.memory import rss_mb
from proofs.subject import Subject

_HELD_S = 5.0
_TURNED_AWAY = (grpc.StatusCode.CANCELLED, grpc.StatusCode.RESOURCE_EXHAUSTED)
_LONG, _LONG_CHARS = 20, 25_000
"""Messages in a reply, and how long they are: half a megabyte in all."""


@dataclass(frozen=True, slots=True)
class Held:
    """What was seen while connections were held.

    Attributes:
        accepted: connections that the server let in and kept until the end.
        rss_mb: memory of its processes before, and at most while they were held; None: not our server.
        health_ms: the longest health check of another caller meanwhile; None: there was no answer.
        list_ms: the longest list of another caller meanwhile.
        refused: how many lists were turned away at once, as gRPC does where calls come faster than it hands them out.
    """

    name: str
    connections: int
    accepted: int
    rss_mb: tuple[float, float] | None
    health_ms: float | None
    list_ms: float | None
    refused: int


def plant_long_messages(world: World, reader: Attacker) -> None:
    """Write messages whose page is half a megabyte."""
    world.write([message_of(reader.stored_as, f"long-{n}", "x " * (_LONG_CHARS // 2), n) for n in range(_LONG)])


def hold(name: str, begin: Hold, target: str, world: World, subject: Subject | None, connections: int) -> Held:
    """Begin on each of so many connections, and look what that does to others."""
    before = _rss(subject)
    with ExitStack() as stack:
        held = [one for _ in range(connections) if (one := _begun(target, begin, stack))]
        health, lists, refused, most = _watch(world, subject, before)
        accepted = sum(map(_is_open, held))
    return Held(name, connections, accepted, (before, most) if subject else None, health, lists, refused)


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


def _watch(world: World, subject: Subject | None, most: float) -> tuple[float | None, float | None, int, float]:
    """Call as somebody else for a while; return the longest waits, how many lists were refused, the most memory."""
    health: list[float | None] = []
    lists: list[float | None] = []
    refused = 0
    request = q.ListMessagesRequest(user_id=world.victims[0].user_id).SerializeToString()
    ends = time.monotonic() + _HELD_S
    while time.monotonic() < ends:
        health.append(_health_ms(world.transport))
        outcome = world.transport.call(METHODS["ListMessages"], request, world.owner, timeout_s=5)
        if outcome.code in _TURNED_AWAY:
            refused += 1
        else:
            lists.append(1000 * outcome.seconds if outcome.code is grpc.StatusCode.OK else None)
        most = max(most, _rss(subject))
        time.sleep(0.05)
    return _longest(health), _longest(lists), refused, most


def _health_ms(transport: Transport) -> float | None:
    began = time.perf_counter()
    is_healthy = transport.is_healthy(5)
    return 1000 * (time.perf_counter() - began) if is_healthy else None


def _longest(waits: Sequence[float | None]) -> float | None:
    answered = [one for one in waits if one is not None]
    return max(answered) if answered and len(answered) == len(waits) else None


def _rss(subject: Subject | None) -> float:
    return sum(map(rss_mb, process_tree(subject.pid))) if subject else 0.0
