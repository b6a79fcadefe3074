"""Tests for the indexer in a separate process, and for its replacement after a crash."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from lexical.engine import HEAP_BYTES
from lexical.test_indexer import Following

from nomemory.server.indexing.lexical.messages import FollowLog
from nomemory.server.indexing.lexical.process import IndexerLostError, LexicalIndexerProcess
from nomemory.server.search.lexical.tantivy.schema import DIRECTORY
from nomemory.server.search.lexical.tantivy.writer import TantivyLexicalWriter
from nomemory.server.store.sqlite.feed import SqliteChangeFeed

_WAIT_S = 30


class IndexerProcess:
    """A log, and its indexer in another process."""

    def __init__(self, directory: Path) -> None:
        self.following = Following(directory)
        self._wake = asyncio.Event()
        work = FollowLog(
            partial(SqliteChangeFeed, directory / "log.db"),
            directory / DIRECTORY,
            heap_bytes=HEAP_BYTES,
            batch_max=100,
            batch_bytes=1_000_000,
            wipe_max=100,
        )
        self.process = LexicalIndexerProcess(work, self._wake)
        self.failures: list[type[BaseException]] = []
        self._stopping = threading.Event()

    @contextmanager
    def running(self) -> Iterator[None]:
        thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        thread.start()
        try:
            yield
        finally:
            self._stopping.set()
            thread.join(_WAIT_S)
            assert not thread.is_alive()
            self.following.log.close()

    async def _run(self) -> None:
        watching = asyncio.create_task(self._pass_on_events())
        while True:
            try:
                await self.process.run()
                break
            except (IndexerLostError, ValueError) as error:
                self.failures.append(type(error))
                await asyncio.sleep(0.05)
        await watching

    async def _pass_on_events(self) -> None:
        """Set events of the test threads on the event loop."""
        while not self._stopping.is_set():
            if self.following.wake.is_set():
                self.following.wake.clear()
                self._wake.set()
            await asyncio.sleep(0.005)
        self.process.stop()

    def wait_for(self, sequence: int) -> None:
        until(lambda: self.process.applied_sequence >= sequence)


def until(reached: Callable[[], bool]) -> None:
    give_up = time.monotonic() + _WAIT_S
    while not reached():
        assert time.monotonic() < give_up
        time.sleep(0.01)


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IndexerProcess]:
    apart = IndexerProcess(tmp_path_factory.mktemp("apart"))
    with apart.running():
        yield apart


def test_writes_and_deletions_are_indexed(apart: IndexerProcess) -> None:
    apart.wait_for(apart.following.write("火锅 1", "火锅 2"))
    assert apart.following.search("火锅") == {"火锅 1", "火锅 2"}
    apart.wait_for(apart.following.delete("火锅 1"))
    assert apart.following.search("火锅") == {"火锅 2"}


def test_write_is_indexed_immediately(apart: IndexerProcess) -> None:
    apart.wait_for(apart.following.write("warm"))
    began = time.monotonic()
    for n in range(5):
        apart.wait_for(apart.following.write(f"快 {n}"))
    assert time.monotonic() - began < 5 * 0.5, "the process is notified and does not have to poll"


def test_indexer_has_lower_priority_than_reads_and_acknowledgements(apart: IndexerProcess) -> None:
    apart.wait_for(apart.following.write("warm"))
    process = apart.process.process_id
    assert process is not None
    assert os.getpriority(os.PRIO_PROCESS, process) > os.getpriority(os.PRIO_PROCESS, 0)


def test_indexer_error_is_logged_and_raised_in_the_parent(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    apart = IndexerProcess(tmp_path)
    with TantivyLexicalWriter(tmp_path / DIRECTORY, HEAP_BYTES), pytest.raises(ValueError):  # noqa: PT011 - by its kind
        asyncio.run(apart.process.run())
    apart.following.log.close()
    assert '"kind":"ValueError"' in capfd.readouterr().err


def test_killed_process_is_replaced_until_it_is_stopped(tmp_path: Path) -> None:
    apart = IndexerProcess(tmp_path)
    with apart.running():
        apart.wait_for(apart.following.write("火锅 1"))
        killed = apart.process.process_id
        assert killed is not None
        os.kill(killed, signal.SIGKILL)
        until(lambda: apart.process.process_id != killed)
        apart.wait_for(apart.following.write("火锅 2"))
        assert apart.following.search("火锅") == {"火锅 1", "火锅 2"}
        assert apart.failures == [IndexerLostError]
        process = apart.process.process_id
        assert process is not None
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)
