"""Tests that interrupted changes of disconnected clients are audited."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import pytest
from server.lifecycle import count, write

from chat_messages import new_message
from nomemory.server.runtime.settings import Settings
from nomemory.v1 import ingest_service_pb2 as i

if TYPE_CHECKING:
    from running_server import Server

Start = Callable[[Settings], AbstractContextManager["Server"]]


def erased_users(log: str) -> set[str]:
    lines = [json.loads(line) for line in log.splitlines() if '"event":"audit"' in line]
    return {user for line in lines if line["action"] == "erase" for user in line["users"]}


def test_erasure_of_a_disconnected_caller_is_audited(
    start: Start, own_settings: Settings, capfd: pytest.CaptureFixture[str]
) -> None:
    users = [f"u{n}" for n in range(20)]
    with start(own_settings) as server:
        for user in users:
            write(server, [new_message(user, "m", "x")])
        for index, user in enumerate(users):
            call = server.ingest.EraseUser.future(i.EraseUserRequest(user_id=user))
            time.sleep(index / 5_000)  # cancels the call before, during and after the change
            call.cancel()
        write(server, [new_message("last", "m", "x")])  # changes keep their order, so the accepted one is done
        gone = {user for user in users if not count(server, user)}
    assert gone <= erased_users(capfd.readouterr().err)
