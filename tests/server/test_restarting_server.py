"""Tests that a server listens again after gRPC has stopped unexpectedly."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import grpc
import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection

from nomemory.server.api.grpc.restarting_server import RestartingServer
from nomemory.server.api.identity.credentials import IdentitySettingsError
from nomemory.server.runtime.listen_address import ListenAddress, ListenAddressError

WAIT_S = 20
Listened = tuple[grpc.aio.Server, ListenAddress]


def bound_server(address: ListenAddress) -> Listened:
    """Bind a server that answers UNIMPLEMENTED to every call."""
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    port = server.add_insecure_port(str(address))
    if not port:
        raise ListenAddressError(f"cannot listen on {address}")
    return server, ListenAddress(address.host, port)


def server_that_fails_to_start(address: ListenAddress) -> Listened:
    server, bound = bound_server(address)
    start = server.start

    async def failing() -> None:
        await start()
        raise grpc.aio.InternalError("not this time")

    server.start = failing  # type: ignore[method-assign]
    return server, bound


def port_is_taken(address: ListenAddress) -> Listened:
    raise ListenAddressError(f"cannot listen on {address}")


def fail_without_certificate(_address: ListenAddress) -> Listened:
    raise IdentitySettingsError("the TLS files cannot be loaded")


@dataclass
class Attempts:
    """Binds the server, but fails some attempts after the first."""

    obstacle: Callable[[ListenAddress], Listened]
    made: int = 0
    failing: range = range(2, 4)

    def listen(self, address: ListenAddress) -> Listened:
        self.made += 1
        return (self.obstacle if self.made in self.failing else bound_server)(address)


async def is_answered(target: str) -> bool:
    async with grpc.aio.insecure_channel(target, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
        method: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary("/any/Method")
        call = method(b"", timeout=WAIT_S, wait_for_ready=True)
        return await call.code() is grpc.StatusCode.UNIMPLEMENTED


async def call_until_answered(target: str) -> None:
    """Call until there is a response: a failing server may have rejected the first call."""
    async with asyncio.timeout(WAIT_S):
        while not await is_answered(target):
            pass


@contextmanager
def peer_that_stops_grpc(target: str) -> Iterator[socket.socket]:
    """Send a call with a non-text path, which stops grpcio's loop, and stay connected."""
    host, _, port = target.rpartition(":")
    http2 = H2Connection(H2Configuration(header_encoding=None, validate_outbound_headers=False))
    http2.initiate_connection()
    headers = {":method": "POST", ":scheme": "http", ":authority": target, ":path": "/any/Meth\xa2d"}
    headers |= {"te": "trailers", "content-type": "application/grpc"}
    fields = [(name, value.encode("latin-1")) for name, value in headers.items()]
    http2.send_headers(1, fields, end_stream=True)
    with socket.create_connection((host, int(port)), timeout=5) as connection:
        connection.sendall(http2.data_to_send())
        yield connection


async def has_restarted(attempts: Attempts) -> None:
    async with asyncio.timeout(WAIT_S):
        while attempts.made == 1:  # noqa: ASYNC110 - nobody can be told
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("obstacle", [port_is_taken, fail_without_certificate, server_that_fails_to_start])
async def test_server_listens_again_after_grpc_stopped_accepting(
    obstacle: Callable[[ListenAddress], Listened],
) -> None:
    attempts = Attempts(obstacle)
    server = RestartingServer(attempts.listen)
    target = str(await server.start(ListenAddress("127.0.0.1", 0)))
    try:
        assert await is_answered(target)
        with peer_that_stops_grpc(target):
            await has_restarted(attempts)
            await call_until_answered(target)
        assert attempts.made > attempts.failing[-1]
    finally:
        await asyncio.wait_for(server.stop(0.0), WAIT_S)


async def test_call_in_flight_continues() -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def answer(_request: bytes, _context: object) -> bytes:
        begun.set()
        await go_on.wait()
        return b"done"

    def listen(address: ListenAddress) -> Listened:
        server, bound = bound_server(address)
        method: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(answer)
        server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("a.Service", {"Method": method})])
        return server, bound

    attempts = Attempts(listen, failing=range(1, 10))
    server = RestartingServer(attempts.listen)
    target = str(await server.start(ListenAddress("127.0.0.1", 0)))
    async with grpc.aio.insecure_channel(target) as channel:
        method: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary("/a.Service/Method")
        call = method(b"", timeout=WAIT_S)
        await begun.wait()
        with peer_that_stops_grpc(target):
            await has_restarted(attempts)
        go_on.set()
        assert await call == b"done"
    await asyncio.wait_for(server.stop(0.0), WAIT_S)


async def test_peer_that_stopped_the_server_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nomemory.server.api.grpc.restarting_server._GRACE_S", 0.1)
    server = RestartingServer(bound_server)
    with peer_that_stops_grpc(str(await server.start(ListenAddress("127.0.0.1", 0)))) as connection:
        connection.settimeout(WAIT_S)
        assert await asyncio.to_thread(read_all, connection)
    await asyncio.wait_for(server.stop(0.0), WAIT_S)


def read_all(connection: socket.socket) -> bytes:
    """Read until the peer closes.

    Raises: TimeoutError: The peer does not close.
    """
    return b"".join(iter(lambda: connection.recv(4096), b""))


async def test_failure_to_listen_at_startup_is_reported() -> None:
    with pytest.raises(ListenAddressError):
        await RestartingServer(port_is_taken).start(ListenAddress("127.0.0.1", 0))
