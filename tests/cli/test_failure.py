"""Tests for error messages on stderr and exit codes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from cli.command_line import Run
from client.scripted_server import REQUEST_ID, Answer, Scripted

from nomemory.server.faults import Fault, Reason, Violation, build_invalid_argument_fault
from nomemory.v1 import query_service_pb2

NOMEMORY = [sys.executable, "-c", "from nomemory.cli.main import main; main()"]


def test_unreachable_server_error_explains_how_to_start_one(run: Run) -> None:
    result = run("list", "--user", "ann", "--target", "127.0.0.1:9")
    assert result.exit_code == 1
    assert result.stderr == (
        "No server is running at 127.0.0.1:9. Start one with: nomemory serve --listen 127.0.0.1:9\n"
    )


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (
            build_invalid_argument_fault(
                [Violation("page_size", "must be at most 500"), Violation("filter.role", "is unknown")]
            ),
            "Error: invalid field\n  page_size: must be at most 500\n  filter.role: is unknown\n",
        ),
        (
            Fault(Reason.ERROR_REASON_MESSAGE_NOT_FOUND, "no such message for this user"),
            "Error: no such message for this user (message not found)\n",
        ),
        (
            Fault(Reason.ERROR_REASON_OVERLOADED, "the write queue is full", retry_after_s=1.5),
            "Error: the write queue is full (overloaded)\n  Retry in 1.5 s.\n",
        ),
        (
            Fault(Reason.ERROR_REASON_INTERNAL, "internal error"),
            f"Error: internal error (internal)\n  See the server's log for request {REQUEST_ID}.\n",
        ),
        (grpc.StatusCode.UNIMPLEMENTED, "The server at TARGET is not a NoMemory server of this version.\n"),
        (grpc.StatusCode.DEADLINE_EXCEEDED, "The call to TARGET timed out.\n"),
        (grpc.StatusCode.PERMISSION_DENIED, "The call to TARGET failed: PERMISSION_DENIED: nobody is in\n"),
    ],
)
def test_error_lists_every_violation(run: Run, script: Scripted, answer: Answer, expected: str) -> None:
    script.will("ListMessages", answer)
    result = run("list", "--user", "ann", "--target", script.target)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == expected.replace("TARGET", script.target)


@pytest.mark.parametrize(
    "arguments",
    [
        ["list"],
        ["list", "--user", "ann", "--since", "yesterday"],
        ["list", "--user", "ann", "--target", "nowhere"],
        ["list", "--user", "ann", "--limit", "-1"],
        ["search", "--user", "ann"],
        ["semantic", "x", "--user", "ann", "--min-score", "2"],
        ["delete", "--user", "ann"],
        ["import", "not-there.jsonl"],
        ["import", "-", "--step", "soon"],
        ["remember"],
        ["serve", "--log-level", "loud"],
    ],
)
def test_usage_error_exits_with_2(run: Run, arguments: list[str]) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert "Traceback" not in result.stderr


def test_invalid_setting_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOMEMORY_MAX_PAGE_SIZE", "none")
    result = run("doctor")
    assert result.exit_code == 2
    assert "max_page_size: Input should be a valid integer" in result.stderr


def test_closed_output_pipe_is_not_an_error(script: Scripted) -> None:
    page = query_service_pb2.ListMessagesResponse(next_cursor="c")
    for _ in range(500):
        page.items.add(user_id="ann", message_id="m", content="x" * 100, role=1).ts.seconds = 1
    script.will("ListMessages", page)
    for more in ([], ["--json"]):
        command = [*NOMEMORY, "list", "--user", "ann", "--limit", "0", "--target", script.target, *more]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.read(100)
            process.stdout.close()
            assert process.stderr is not None
            assert process.stderr.read() == b""
            assert process.wait(20) == 128 + signal.SIGPIPE


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Restore SIGINT, which background processes ignore and their children inherit."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_interrupt_prints_no_traceback(tmp_path: Path) -> None:
    fifo = tmp_path / "never.jsonl"
    os.mkfifo(fifo)
    with subprocess.Popen([*NOMEMORY, "import", str(fifo)], stderr=subprocess.PIPE, cwd=tmp_path) as process:
        with fifo.open("wb"):  # opens when the command opens it; the command then waits for a line
            code = interrupted(process)
        assert process.stderr is not None
        assert (process.stderr.read().strip(), code) == (b"", 128 + signal.SIGINT)


def interrupted(process: subprocess.Popen[bytes]) -> int:
    """Interrupt a process; repeat if it missed the signal while starting to wait for input."""
    give_up = time.monotonic() + 60
    while True:
        process.send_signal(signal.SIGINT)
        try:
            return process.wait(5)
        except subprocess.TimeoutExpired:
            assert time.monotonic() < give_up
