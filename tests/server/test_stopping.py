"""Tests that the event loop is not blocked while the lexical index finishes its commit."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess

import pytest

from nomemory.server.runtime.app import running_server
from nomemory.server.runtime.processes.spawn import ProcessLaunch
from nomemory.server.runtime.settings import Settings


async def test_slow_lexical_indexer_does_not_block_the_event_loop(
    own_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    indexers: list[subprocess.Popen[bytes]] = []
    start = ProcessLaunch.start

    def noted_start(launch: ProcessLaunch) -> tuple[subprocess.Popen[bytes], socket.socket]:
        process, pipe = start(launch)
        if launch.module.endswith("indexing.lexical.worker"):
            indexers.append(process)
        return process, pipe

    monkeypatch.setattr(ProcessLaunch, "start", noted_start)
    held_up: list[int | None] = []

    def let_go(indexer: subprocess.Popen[bytes]) -> None:
        held_up.append(indexer.poll())
        indexer.send_signal(signal.SIGCONT)

    async with running_server(own_settings):
        while not indexers:  # noqa: ASYNC110 - it is started by a task that nobody can wait for
            await asyncio.sleep(0.01)
        (indexer,) = indexers
        indexer.send_signal(signal.SIGSTOP)
        asyncio.get_running_loop().call_later(0.5, let_go, indexer)  # during the shutdown
    assert held_up == [None], "the event loop was not blocked while the server waited for the indexer"
    assert indexer.poll() is not None
