"""Tests for the full disks of `scripts/torture`."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from proofs.torture.disk import CAN_LIMIT, SmallDisk, limit_file_size
from proofs.torture.qdrant_proxy import QdrantProxy

WRITES = """
import sys
for line in sys.stdin:
    try:
        with open(sys.argv[1], "wb", buffering=0) as file:
            print(file.write(b"a" * 1000), flush=True)
    except OSError as error:
        print(error.errno, flush=True)
"""


@pytest.mark.skipif(not CAN_LIMIT, reason="the limits of another process can be set on Linux only")
def test_file_size_limit_stops_writes_of_a_running_process_until_lifted(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITES, str(tmp_path / "file")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout

        def written() -> int:
            process.stdin.write("\n")  # type: ignore[union-attr]
            process.stdin.flush()  # type: ignore[union-attr]
            return int(process.stdout.readline())  # type: ignore[union-attr]

        assert written() == 1000
        with limit_file_size([process.pid], 100):
            assert written() == 100
        assert written() == 1000
        process.stdin.close()


def test_large_disk_is_not_filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proofs.torture.disk._LARGEST", 0)
    with pytest.raises(ValueError, match="use a small dedicated file system"), SmallDisk(tmp_path).fill():
        pass
    assert not list(tmp_path.iterdir())


def test_proxy_forwards_connections_until_interrupted() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=lambda: server.accept()[0].sendall(b"hello"), daemon=True).start()
        with QdrantProxy(f"http://127.0.0.1:{server.getsockname()[1]}").serve() as proxy:
            port = int(proxy.url.rpartition(":")[2])
            with socket.create_connection(("127.0.0.1", port), timeout=10) as caller:
                assert caller.recv(5) == b"hello"
                proxy.interrupt()
                assert caller.recv(5) == b""
            with socket.create_connection(("127.0.0.1", port), timeout=10) as late:
                assert late.recv(5) == b""
