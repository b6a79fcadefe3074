"""Tests that standard error contains no content, and the environment of processes no secrets."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from identity.calls import Metadata, bearer
from identity.issuer import AUDIENCE, ISSUER, SECRET
from identity.keyring import Keyring
from server.fleet import Fleet, fleet, until

from chat_messages import new_message
from nomemory.server.runtime.stderr import open_log_stream
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import query_service_pb2 as q
from nomemory.v1.ingest_service_pb2_grpc import IngestServiceStub
from nomemory.v1.query_service_pb2_grpc import QueryServiceStub

FORGED = b'{"event": "rpc", "caller": "admin"}'

DYING = """
import logging, os, sys, threading, warnings
from nomemory.server.runtime.logs import configure_logs
from nomemory.server.runtime.stderr import reserve_stderr_for_logs
with reserve_stderr_for_logs(sys.argv[1]):
    configure_logs("info")
    os.write(2, b'a library\\n{"event": "rpc", "caller": "admin"}\\n')
    os.write(2, b"thread 'main' panicked at src/lib.rs:10:5:\\nbyte 1 is inside of `I never eat peanuts`\\n")
    warnings.warn('odd\\n{"event": "rpc"} peanuts', RuntimeWarning)
    logging.getLogger("library").error('odd\\n{"event": "rpc"} %s', "peanuts")
    thread = threading.Thread(target=lambda: int("peanuts"))
    thread.start()
    thread.join()
    os.write(2, b"finished\\n")
    if sys.argv[2] == "abort":
        os.abort()
    int("peanuts")
"""


def collect_error_output(level: str, end: str) -> str:
    """Return the standard error of a process that fails in every way."""
    done = subprocess.run(
        [sys.executable, "-c", DYING, level, end], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode != 0
    return done.stderr


@pytest.mark.parametrize("end", ["abort", "error"])
def test_crash_report_has_the_location_and_no_content(end: str) -> None:
    error_output = collect_error_output("info", end)
    lines = [json.loads(line) for line in error_output.splitlines() if line.startswith("{")]
    events = {line["event"] for line in lines}
    assert {"library log record", "uncaught exception in thread"} <= events
    assert {"library", "py.warnings"} <= {line.get("library") for line in lines}
    assert ("uncaught exception" in events) == (end == "error")
    assert ("Fatal Python error: Aborted" in error_output) == (end == "abort")
    assert "rpc" not in error_output
    assert "peanuts" not in error_output


def test_records_that_cannot_be_written_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    with Path("/dev/full").open("wb") as full_disk:
        monkeypatch.setenv("NOMEMORY_LOG_DESCRIPTOR", str(full_disk.fileno()))
        assert open_log_stream().write(b"a record") == len(b"a record")


def test_long_records_are_written_completely(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as log:
        monkeypatch.setenv("NOMEMORY_LOG_DESCRIPTOR", str(log.fileno()))
        open_log_stream().write(b"a" * 1_000_000)
    assert (tmp_path / "log").stat().st_size == 1_000_000


def test_debug_level_includes_network_input() -> None:
    error_output = collect_error_output("debug", "abort")
    assert FORGED.decode() in error_output
    assert "finished" in error_output


def frame(kind: int, payload: bytes) -> bytes:
    """Return an HTTP/2 frame of the connection."""
    return struct.pack(">I", len(payload))[1:] + bytes([kind, 0]) + bytes(4) + payload


@pytest.fixture(scope="module")
def key_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("keys") / "keys.json"


@pytest.fixture(scope="module")
def credential(key_file: Path) -> Metadata:
    """The metadata of a call of a service that may write and read."""
    return bearer(Keyring(key_file).key("ingest", "query"))


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, key_file: Path, credential: Metadata) -> Iterator[Fleet]:
    """A server with secrets, whose network library writes what it receives to standard error."""
    data = tmp_path_factory.mktemp("running") / "data"
    issuer = {"NOMEMORY_JWT_SECRET": SECRET, "NOMEMORY_JWT_ISSUER": ISSUER, "NOMEMORY_JWT_AUDIENCE": AUDIENCE}
    assert credential, "its key is in the file"
    others = {"NOMEMORY_API_KEYS": str(key_file), "OPENAI_API_KEY": SECRET, "openai_api_key": SECRET}
    with fleet(data, GRPC_VERBOSITY="debug", GRPC_TRACE="http", **issuer, **others) as server:
        yield server


def test_network_input_cannot_forge_log_lines(running: Fleet, credential: Metadata) -> None:
    text = b"\n" + FORGED + b"\n"
    host, _, port = running.target.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=10) as stranger:
        stranger.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, b""))
        stranger.sendall(frame(7, struct.pack(">II", 0, 11) + text))
        assert stranger.recv(1024)
    QueryServiceStub(running.channel()).ListMessages(
        q.ListMessagesRequest(user_id="lin"), timeout=30, metadata=credential
    )
    assert "admin" not in running.log.read_text()


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="environments can be looked at on Linux only")
def test_server_processes_get_no_secrets_in_the_environment(running: Fleet) -> None:
    children = descendants(running.process.pid)
    environments = {child: Path(f"/proc/{child}/environ").read_bytes() for child in children}
    assert environments
    assert [child for child, environment in environments.items() if SECRET.encode() in environment] == []


def descendants(process: int) -> list[int]:
    """Return all descendant processes of a process."""
    listed = subprocess.run(
        ["pgrep", "-P", str(process)],  # noqa: S607 - wherever the system has it
        capture_output=True, text=True, check=False,
    ).stdout  # fmt: skip
    children = [int(line) for line in listed.split()]
    return [*children, *(below for child in children for below in descendants(child))]


def test_crash_output_of_a_worker_is_logged(running: Fleet, credential: Metadata) -> None:
    channel = running.channel()
    written = i.WriteMessagesRequest(messages=[new_message("u", "m", "zebra")])
    token = IngestServiceStub(channel).WriteMessages(written, timeout=30, metadata=credential).write_token
    search = q.LexicalSearchRequest(user_id="u", query_text="zebra", at_least=token)
    assert QueryServiceStub(channel).LexicalSearch(search, timeout=30, metadata=credential).items
    (indexer,) = running.children("indexing.lexical.worker")
    os.kill(indexer, signal.SIGABRT)
    assert until(lambda: "Fatal Python error: Aborted" in running.log.read_text())
    assert until(lambda: running.children("indexing.lexical.worker") not in ([], [indexer]))
