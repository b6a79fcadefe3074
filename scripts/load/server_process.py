"""Start and stop a `nomemory serve` process for benchmarks."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import child_process
import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from load.corpus import DIMENSION, HEAVY

from evaluation.temporary_server import list_process_tree, read_ready_address
from nomemory.v1 import ingest_service_pb2 as ingest_pb
from nomemory.v1 import ingest_service_pb2_grpc, query_service_pb2_grpc
from nomemory.v1 import query_service_pb2 as pb

Done = Callable[[ingest_pb.GetIndexStatusResponse], bool]

_WAIT_S = 1800
_TERM_S = 60


@dataclass(slots=True)
class ServerProcess:
    """A `nomemory serve` process with default settings and additional environment variables.

    Attributes:
        embedder: value of the setting NOMEMORY_EMBEDDER.
        target: HOST:PORT of the gRPC API, set by `start`.
        http: HOST:PORT of the HTTP API, set by `start`.
        start_s: startup time in seconds, set by `start`.
    """

    data: Path
    embedder: str = "none"
    variables: Mapping[str, str] = field(default_factory=dict)
    target: str = ""
    http: str = ""
    start_s: float = 0.0
    _process: subprocess.Popen[str] | None = field(default=None, repr=False)

    def start(self) -> None:
        """Start the server, and set `start_s` to the time until a read succeeds."""
        command = ["serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]
        environment = {
            **os.environ,
            "NOMEMORY_DATA": str(self.data),
            "NOMEMORY_EMBEDDER": self.embedder,
            "NOMEMORY_EMBEDDING_DIMENSION": str(DIMENSION),
            **self.variables,
        }
        began = time.perf_counter()
        self._process = child_process.start_program(
            child_process.NOMEMORY, *command, environment=environment, stderr=subprocess.DEVNULL
        )
        self.target = read_ready_address(self._process)
        self.http = read_ready_address(self._process).partition("//")[2]
        with grpc.insecure_channel(self.target) as channel:
            _wait_for_first_read(channel)
        self.start_s = time.perf_counter() - began

    def stop(self) -> None:
        """Terminate the server and wait until it exits."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(_TERM_S)
            self._process = None

    def list_pids(self) -> list[int]:
        """Return the ids of the server process and its descendants; empty if it is stopped."""
        return list_process_tree(self._process.pid) if self._process else []

    def wait_for_lexical(self) -> None:
        """Wait until the lexical index is up to date."""
        self._wait_until(lambda status: status.lexical.checkpoint >= status.log.sequence)

    def wait_for_indexes(self) -> None:
        """Wait until the lexical and the vector index are up to date."""
        self._wait_until(lambda status: min(status.lexical.checkpoint, status.vector.checkpoint) >= status.log.sequence)

    def wait_until_idle(self) -> None:
        """Wait until no index has pending messages; works with every storage engine."""
        self._wait_until(lambda status: not (status.lexical.pending or status.vector.pending))

    def _wait_until(self, done: Done) -> None:
        deadline = time.monotonic() + _WAIT_S
        with grpc.insecure_channel(self.target) as channel:
            ingest = ingest_service_pb2_grpc.IngestServiceStub(channel)
            while not done(ingest.GetIndexStatus(ingest_pb.GetIndexStatusRequest())):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"the indexes did not catch up within {_WAIT_S} s")
                time.sleep(0.1)


def _wait_for_first_read(channel: grpc.Channel) -> None:
    health = health_pb2_grpc.HealthStub(channel)
    while health.Check(health_pb2.HealthCheckRequest()).status != health_pb2.HealthCheckResponse.SERVING:
        time.sleep(0.01)
    query_service_pb2_grpc.QueryServiceStub(channel).ListMessages(pb.ListMessagesRequest(user_id=HEAVY, page_size=1))
