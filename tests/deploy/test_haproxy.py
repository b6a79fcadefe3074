"""HAProxy with the configuration in `deploy/`, in front of a real server with hostile clients."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
import httpx
import pytest
from identity.keyring import Keyring
from server.fleet import until

from nomemory.server.runtime.settings import Settings
from nomemory.v1 import query_service_pb2 as q
from nomemory.v1.query_service_pb2_grpc import QueryServiceStub
from running_server import started

CONFIGURATION = Path(__file__).parent.parent.parent / "deploy" / "haproxy" / "haproxy.cfg"
STRANGER = "127.0.0.2"
"""Attackers have an address of their own, as they have outside."""
MOST_OF_AN_ADDRESS = 100
ATTEMPTS = 400
GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""What every client of gRPC says first."""

pytestmark = pytest.mark.skipif(
    shutil.which("haproxy") is None, reason="needs HAProxy on the PATH: apt-get install haproxy"
)


@dataclass(frozen=True)
class Front:
    """The two ports of HAProxy, and the API key of a service."""

    grpc: int
    http: int
    key: str

    def lists(self) -> None:
        """Call over gRPC and HTTP, each over a new connection; raise the error of either call."""
        options = [("grpc.use_local_subchannel_pool", 1)]
        with grpc.insecure_channel(f"127.0.0.1:{self.grpc}", options) as channel:
            request = q.ListMessagesRequest(user_id="lin")
            QueryServiceStub(channel).ListMessages(
                request, metadata=(("authorization", f"Bearer {self.key}"),), timeout=10
            )
        headers = {"authorization": f"Bearer {self.key}"}
        httpx.get(f"http://127.0.0.1:{self.http}/v1/users/lin/messages", headers=headers, timeout=10).raise_for_status()

    def serves(self) -> bool:
        """Return whether HAProxy has connected to the server."""
        try:
            self.lists()
        except (grpc.RpcError, httpx.HTTPError):
            return False
        return True


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    """Return a running HAProxy in front of a running server."""
    folder = tmp_path_factory.mktemp("haproxy")
    keyring = Keyring(folder / "keys.json")
    key = keyring.key("query")
    settings = Settings.from_environment(
        data=folder / "data", listen="127.0.0.1:0", http_listen="127.0.0.1:0", embedder="none", api_keys=keyring.path
    )
    with started(settings) as server:
        ports = {":7700": free_port(), ":7780": free_port()}
        backends = {"127.0.0.1:7800": server.target, "127.0.0.1:7880": server.http.removeprefix("http://")}
        written = CONFIGURATION.read_text("utf-8")
        for there, here in backends.items():
            assert there in written
            written = written.replace(there, here)
        written = written.replace("port 7880", f"port {server.http.rpartition(':')[2]}")
        for bound, port in ports.items():
            written = written.replace(f"bind {bound}", f"bind 127.0.0.1:{port}")
        with haproxy(folder, written):
            front_end = Front(ports[":7700"], ports[":7780"], key)
            assert until(front_end.serves)
            yield front_end


@contextmanager
def haproxy(folder: Path, configuration: str) -> Iterator[None]:
    """Run HAProxy until the context is left."""
    (folder / "haproxy.cfg").write_text(configuration, "utf-8")
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(["haproxy", "-f", str(folder / "haproxy.cfg")], stdout=log, stderr=log)  # noqa: S607 - the system's
        try:
            yield
        finally:
            process.terminate()
            process.wait()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def strangers(hold: ExitStack, port: int, count: int, words: bytes) -> list[socket.socket]:
    """Open connections from one address, send bytes on each, and return those that were accepted."""
    held = []
    for _ in range(count):
        try:
            connection = socket.create_connection(("127.0.0.1", port), 10, (STRANGER, 0))
            hold.callback(connection.close)
            connection.sendall(words)
            if connection.recv(1):
                held.append(connection)
        except ConnectionError:
            continue
    return held


def test_configuration_is_valid() -> None:
    subprocess.run(["haproxy", "-c", "-f", str(CONFIGURATION)], check=True, capture_output=True)  # noqa: S607 - the system's


def test_lingering_rejected_connections_do_not_block_other_clients(front: Front) -> None:
    request = b"GET /v1/users/lin/messages HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
    with ExitStack() as hold:
        held = strangers(hold, front.http, ATTEMPTS, request)
        assert 0 < len(held) <= MOST_OF_AN_ADDRESS
        front.lists()


def test_idle_grpc_connections_do_not_block_other_clients(front: Front) -> None:
    with ExitStack() as hold:
        held = strangers(hold, front.grpc, ATTEMPTS, GREETING)
        assert 0 < len(held) <= MOST_OF_AN_ADDRESS
        front.lists()


def test_incomplete_request_headers_time_out(front: Front) -> None:
    with socket.create_connection(("127.0.0.1", front.http), 30, ("127.0.0.3", 0)) as connection:
        connection.sendall(b"GET /v1/users/lin/messages HTTP/1.1\r\nhost: a")
        answer = connection.recv(65_536)
        assert answer == b"" or b" 408 " in answer
