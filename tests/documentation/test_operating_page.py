"""Tests for the backup commands and the interceptor example in docs/operating.md."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc
import pytest
from cli.command_line import Run
from documentation.blocks import of_page

from nomemory.client import Client
from nomemory.server.api.host_interceptors import HostInterceptors
from nomemory.server.runtime import app
from nomemory.server.runtime.settings import Settings
from running_server import started

PAGE = "docs/operating.md"


def settings() -> Settings:
    return Settings.from_environment(data=Path("data").absolute(), listen="127.0.0.1:0", drain_timeout_s=0.0)


def test_documented_operating_commands_work(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOMEMORY_EMBEDDER", "none")
    monkeypatch.setenv("NOMEMORY_EMBEDDING_DIMENSION", "4")
    backup, restore, export, accept = (
        command for block in of_page(PAGE, "sh") for command in block.commands() if command.program == "nomemory"
    )
    with started(settings()) as server, Client(server.target) as client:
        client.write([{"user_id": "ann", "role": "user", "ts": datetime.now(UTC), "content": "kept"}])
        assert run(*backup.words[1:]).exit_code == 0
        client.write([{"user_id": "ann", "role": "user", "ts": datetime.now(UTC), "content": "not in the backup"}])
    for command in (restore, export, accept):
        result = run(*command.words[1:])
        assert result.exit_code == 0, result.output
    with started(settings()) as server, Client(server.target) as client:
        assert [item.content for item in client.list_messages("ann").items] == ["kept"]


def test_documented_interceptors_can_be_installed() -> None:
    (program,) = (block.text for block in of_page(PAGE, "python"))
    server_interceptors: list[object] = []

    class Tracing(grpc.aio.ServerInterceptor):
        async def intercept_service(self, continuation: object, details: object) -> None:
            """Replace an interceptor of the page."""

    def serve(settings: Settings, *, interceptors: object) -> None:
        server_interceptors.extend((settings, interceptors))

    program = program.replace(f"from {app.__name__} import serve\n", "")
    names: dict[str, Any] = {"Tracing": Tracing, "is_over_quota": lambda _caller: False, "serve": serve}
    exec(program, names)  # noqa: S102 - the page's own program
    (passed,) = server_interceptors[1:]
    assert isinstance(passed, HostInterceptors)
    assert [len(passed.grpc), len(passed.before_handler)] == [1, 1]
