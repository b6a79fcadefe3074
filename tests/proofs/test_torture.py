"""Tests for `scripts/torture` with a short run, and for the detection of lost messages."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import pytest
from postgres import NOT_INSTALLED, find_program_directory

from chat_messages import new_message
from nomemory.server.runtime.settings import Settings
from nomemory.v1 import ingest_service_pb2 as i
from proofs.torture.ledger import Ledger, MessageVersion
from proofs.torture.main import main
from proofs.torture.verification import Verification, wait_for_indexes

if TYPE_CHECKING:
    from running_server import Server


@pytest.mark.proof
@pytest.mark.timeout(300)
def test_a_short_run_loses_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    short = ["--rounds", "1", "--round-seconds", "0.5", "--seed", "3", "--writers", "1"]
    code = main([*short, "--embedder", "endpoint", "--keep", str(tmp_path), "--only", "kill -9 of everything"])
    printed = capsys.readouterr().out
    assert code == 0, printed
    assert "| kill -9 of everything | 1 |" in printed
    assert "no findings" in printed


@pytest.mark.proof
@pytest.mark.timeout(300)
def test_two_replicas_lose_nothing_under_faults(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if find_program_directory() is None:
        pytest.skip(NOT_INSTALLED)
    short = ["--rounds", "2", "--round-seconds", "0.5", "--seed", "4", "--writers", "2"]
    faults = ["all database connections terminated", "PostgreSQL crashes, a replica is killed"]
    code = main([*short, "--log", "postgres", "--keep", str(tmp_path), "--only", *faults])
    printed = capsys.readouterr().out
    assert code == 0, printed
    for fault in faults:
        assert f"| {fault} | 1 |" in printed
    assert "no findings" in printed


@dataclass
class At:
    """A server of the tests."""

    target: str

    def open_channel(self) -> grpc.Channel:
        return grpc.insecure_channel(self.target)


def kinds(server: Server, ledger: Ledger) -> list[str]:
    at = At(server.target)
    assert not wait_for_indexes(at, 30)
    verification = Verification(at, 4)
    verification.verify_users([ledger], ["u"])
    return sorted({finding.kind for finding in verification.findings})


def test_missing_and_unexpected_messages_are_detected(
    start: Callable[[Settings], AbstractContextManager[Server]], own_settings: Settings
) -> None:
    contents = {f"m{n}": f"tortured m{n}" for n in range(5)}
    ledger = Ledger(users=["u"])
    changes = {("u", item): MessageVersion(content, 0, "c") for item, content in contents.items()}
    ledger.record_attempt(changes)
    with start(own_settings) as server:
        messages = [
            new_message("u", item, content, conversation_id="c", embedding=(1, 0, 0, 0))
            for item, content in contents.items()
        ]
        token = server.ingest.WriteMessages(i.WriteMessagesRequest(messages=messages)).write_token
        ledger.record_acknowledgment(changes, token)
        assert not kinds(server, ledger)
        server.ingest.DeleteMessages(i.DeleteMessagesRequest(user_id="u", message_ids=["m1"]))
        assert kinds(server, ledger) == ["lost"]
        strangers = [new_message("u", "new", "tortured", conversation_id="c"), new_message("ghost", "a", "tortured")]
        server.ingest.WriteMessages(i.WriteMessagesRequest(messages=strangers))
        assert kinds(server, ledger) == [
            "invented",
            "lost",
            "not found",
        ]  # no semantic search, because there is no embedder
