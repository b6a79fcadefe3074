"""Tests for `nomemory serve`: startup lines and startup errors."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from nomemory.client.sync import Client
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.startup_errors import StartupError
from running_server import Server, address_in

SERVE = [sys.executable, "-c", "from nomemory.cli.main import main; main()", "serve"]

Start = Callable[[Settings], AbstractContextManager[Server]]


def serve_on_a_terminal(tmp_path: Path, *options: str) -> list[str]:
    """Serve on a terminal, call the server twice and stop it; return the lines of the terminal."""
    ours, theirs = pty.openpty()
    command = [*SERVE, "--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0", *options]
    environment = {name: value for name, value in os.environ.items() if name != "NOMEMORY_LOG_LEVEL"}
    environment["NOMEMORY_EMBEDDER"] = "none"
    with subprocess.Popen(command, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        output = b""
        while b"Data directory" not in output:
            output += os.read(ours, 1 << 16)
        with Client(address_in(output.decode().partition("NoMemory is serving at ")[2])) as client:
            client.add("ann", "I moved to Basel.")
            assert client.status().log.messages == 1
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    with suppress(OSError):  # Linux reports the end of a terminal as this error
        while more := os.read(ours, 1 << 16):
            output += more
    os.close(ours)
    return output.decode().splitlines()


def test_startup_and_log_lines_on_a_terminal_are_human_readable(tmp_path: Path) -> None:
    lines = serve_on_a_terminal(tmp_path, "--http", "127.0.0.1:0", "--inspect", "--log-level", "info")
    serves, http, inspector, data = [line for line in lines if not line.startswith("info: ")]
    assert serves.startswith("NoMemory is serving at 127.0.0.1:")
    assert serves.endswith("Stop it with Ctrl-C.")
    assert http.startswith("HTTP at http://127.0.0.1:")
    assert inspector.startswith("Inspector at http://127.0.0.1:")
    assert data == f"Data directory: {tmp_path / 'data'}"
    assert any(line.startswith("info: rpc (method GetIndexStatus, request_id ") for line in lines)
    assert not any("{" in line for line in lines)


def test_directory_in_use_is_a_one_line_error(server: Server) -> None:
    data = server.settings.server.data
    command = [*SERVE, "--data", str(data), "--listen", "127.0.0.1:0"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    cause = f"the data directory {data} is in use by another server"
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"Error: {cause}: stop that server or use another directory\n"


def refusal(start: Start, settings: Settings) -> str:
    """Return the reason why a server does not start, which `nomemory serve` prints after `Error: `."""
    with pytest.raises(StartupError) as error, start(settings):
        pass
    assert "\n" not in str(error.value)
    return str(error.value)


def test_port_in_use_is_a_one_line_error(server: Server, own_settings: Settings, start: Start) -> None:
    reason = refusal(start, own_settings.copy_with_changes(listen=server.target))
    cause = f"cannot listen on {server.target}: check that this machine has the address and that the port is free"
    assert reason == cause


@pytest.mark.parametrize(
    ("file", "content", "reason"),
    [
        ("log.db", b"no database at all" * 500, "cannot be opened: file is not a database"),
        ("server.key", b"", "does not contain a key of 32 bytes. Restore it from a backup. If you delete it"),
    ],
)
def test_damaged_file_is_a_one_line_error_with_advice(
    own_settings: Settings, start: Start, file: str, content: bytes, reason: str
) -> None:
    path = own_settings.server.data / file
    path.parent.mkdir()
    path.write_bytes(content)
    assert f"{path} {reason}" in refusal(start, own_settings)


def test_truncated_log_is_a_one_line_error(own_settings: Settings, start: Start) -> None:
    with start(own_settings) as server, Client(server.target) as client:
        moment = datetime(2024, 5, 1, tzinfo=UTC)
        client.write(
            {"user_id": "u", "role": "user", "ts": moment + timedelta(seconds=n), "content": "x" * 2_000}
            for n in range(200)
        )
    log = own_settings.server.data / "log.db"
    os.truncate(log, 20_000)
    assert refusal(start, own_settings).startswith(f"the message log {log} cannot be opened: ")
