"""Tests for the lexical indexer: it applies writes, replacements and deletions of a real log."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import tantivy
from lexical.engine import HEAP_BYTES
from lexical.shelf import message, query

from nomemory.server.indexing.lexical import indexer
from nomemory.server.indexing.lexical.indexer import LexicalIndexer
from nomemory.server.indexing.lexical.messages import FollowLog
from nomemory.server.message import Message
from nomemory.server.message_filter import EVERYTHING
from nomemory.server.runtime.read_threads import ReadThreads
from nomemory.server.search.lexical.protocol import LexicalSearch
from nomemory.server.search.lexical.tantivy.panics import EnginePanicError
from nomemory.server.search.lexical.tantivy.reader import TantivyLexicalIndex
from nomemory.server.search.lexical.tantivy.schema import DIRECTORY, build_schema
from nomemory.server.search.lexical.tantivy.writer import TantivyLexicalWriter
from nomemory.server.store.change_feed import Change
from nomemory.server.store.results import OnConflict
from nomemory.server.store.sqlite.feed import SqliteChangeFeed
from nomemory.server.store.sqlite.reader import SqliteLogReader
from nomemory.server.store.sqlite.writer import SqliteLogWriter

WAIT_S = 20


class WatchedFeed(SqliteChangeFeed):
    """A feed that reports reads; the indexer reads on after each commit."""

    def __init__(self, path: Path, reading: Callable[[], None]) -> None:
        super().__init__(path)
        self._reading = reading

    def read_changes(self, after: int, limit: int) -> list[Change]:
        self._reading()
        return super().read_changes(after, limit)


class Following:
    """A log and an indexer that can run in a thread."""

    def __init__(self, directory: Path, batch_max: int = 100, batch_bytes: int = 1_000_000) -> None:
        self.wake = threading.Event()
        self.log = SqliteLogWriter(directory / "log.db", queue_max=100, queue_max_bytes=10**9, announce=self.wake.set)
        self.directory = directory
        self.commits: list[int] = []
        self._applied: int | None = None
        self.failure: Exception | None = None
        self.on_reading: Callable[[], None] = lambda: None
        self._caught_up = threading.Condition()
        work = FollowLog(
            lambda: WatchedFeed(directory / "log.db", self._note),
            directory / DIRECTORY,
            heap_bytes=HEAP_BYTES,
            batch_max=batch_max,
            batch_bytes=batch_bytes,
            wipe_max=500,
        )
        self.indexer = LexicalIndexer(work, self.wake)

    def write(self, *contents: str, user: str = "u") -> int:
        messages = [message(user, text)._replace(message_id=text) for text in contents]
        return asyncio.run(self.log.write(messages, on_conflict=OnConflict.REFUSE)).sequence

    def replace(self, old: str, new: str) -> int:
        changed = Message("u", old, 0, message("u", "").role, new)
        return asyncio.run(self.log.write([changed], on_conflict=OnConflict.REPLACE)).sequence

    def delete(self, *message_ids: str) -> int:
        return asyncio.run(self.log.delete("u", message_ids)).sequence

    def wait_for(self, sequence: int) -> None:
        with self._caught_up:
            assert self._caught_up.wait_for(lambda: self.indexer.applied_sequence >= sequence, WAIT_S)

    def search(self, text: str, user: str = "u") -> set[str]:
        """Return the ids of the matches."""
        return asyncio.run(self._search(text, user))

    async def _search(self, text: str, user: str) -> set[str]:
        threads, log = ReadThreads(1), SqliteLogReader(self.directory / "log.db")
        index = TantivyLexicalIndex(self.directory / DIRECTORY, threads)
        parsed_query = query(text)
        ranking = await index.freeze(user, parsed_query, EVERYTHING)
        hits = await index.search(LexicalSearch(user, parsed_query, ranking, EVERYTHING, None, 10_000))
        versions = await log.read_versions(user, [hit.sequence for hit in hits])
        assert len(versions) == len(hits), "each hit is a version in the log"
        await log.close()
        await threads.close()
        return {version.message_id for version in versions.values()}

    @contextmanager
    def running(self) -> Iterator[None]:
        thread = threading.Thread(target=self.indexer.run)
        thread.start()
        try:
            yield
        finally:
            self.indexer.stop()
            thread.join(WAIT_S)
            assert not thread.is_alive()

    def _note(self) -> None:
        self.on_reading()
        with self._caught_up:
            before, self._applied = self._applied, self.indexer.applied_sequence
            if before not in (None, self._applied):
                self.commits.append(self._applied)
                if self.failure:
                    raise self.failure
            self._caught_up.notify_all()


def test_writes_replacements_and_deletions_are_indexed(tmp_path: Path) -> None:
    following = Following(tmp_path)
    following.write("火锅 before")
    with following.running():
        following.wait_for(following.write("火锅 1", "火锅 2", "火锅 3"))
        assert following.search("火锅") == {"火锅 before", "火锅 1", "火锅 2", "火锅 3"}
        following.wait_for(following.replace("火锅 1", "面条"))
        assert following.search("火锅") == {"火锅 before", "火锅 2", "火锅 3"}
        assert following.search("面条") == {"火锅 1"}
        following.wait_for(following.delete("火锅 1", "火锅 2"))
        assert following.search("火锅 面条") == {"火锅 before", "火锅 3"}
        following.wait_for(following.write("火锅 theirs", user="v"))
        assert following.search("火锅") == {"火锅 before", "火锅 3"}
    following.log.close()


def test_queued_messages_are_committed_in_batches_of_limited_size(tmp_path: Path) -> None:
    following = Following(tmp_path, batch_max=40)
    last = following.write(*(f"火锅 {n}" for n in range(100)))
    with following.running():
        following.wait_for(last)
    assert following.commits == [40, 80, 100]
    assert len(following.search("火锅")) == 100
    following.log.close()


def test_large_messages_make_smaller_commits(tmp_path: Path) -> None:
    following = Following(tmp_path, batch_bytes=4000)  # such a message counts 2,000 bytes because of its long id
    last = following.write(*(f"火锅 {n} {'x' * 1000}" for n in range(5)))
    with following.running():
        following.wait_for(last)
    assert following.commits == [2, 4, 5]
    following.log.close()


def test_commits_are_immediate_only_while_a_full_batch_is_queued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    following = Following(tmp_path, batch_max=40)
    pauses: list[tuple[int, bool]] = []
    pause = following.indexer._pause

    def noted(took_s: float) -> None:
        pauses.append((following.indexer.applied_sequence, took_s > 0))
        pause(took_s)

    monkeypatch.setattr(following.indexer, "_pause", noted)
    last = following.write(*(f"火锅 {n}" for n in range(100)))
    with following.running():
        following.wait_for(last)
    assert pauses == [(80, True), (100, True)]
    following.log.close()


def test_stopping_interrupts_the_pause_between_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexer, "_PAUSE_MAX_S", 60)
    following = Following(tmp_path)
    pause = following.indexer._pause
    begun = threading.Event()

    def long(_took_s: float) -> None:
        begun.set()
        pause(60.0)

    monkeypatch.setattr(following.indexer, "_pause", long)
    following.write("火锅")
    with following.running():
        assert begun.wait(WAIT_S)
    following.log.close()


def test_stopping_does_not_wait_for_queued_messages(tmp_path: Path) -> None:
    following = Following(tmp_path)
    following.write(*(f"火锅 {n}" for n in range(40)))
    following.on_reading = following.indexer.stop
    following.indexer.run()
    assert following.indexer.applied_sequence == 1
    following.log.close()


def test_engine_panic_ends_the_run_with_an_exception(tmp_path: Path) -> None:
    following = Following(tmp_path)
    following.write("火锅")
    following.on_reading = panic
    with pytest.raises(EnginePanicError):
        following.indexer.run()
    following.log.close()


def panic() -> None:
    """Panic like the engine does for an empty query."""
    index = tantivy.Index(build_schema())
    index.searcher().search(tantivy.Query.all_query(), limit=0)


def test_indexing_resumes_at_its_checkpoint(tmp_path: Path) -> None:
    first = Following(tmp_path)
    with first.running():
        first.wait_for(first.write("火锅 1"))
    first.log.close()
    second = Following(tmp_path)
    last = second.write("火锅 2")
    with second.running():
        second.wait_for(last)
    assert second.commits == [last], "committed changes are not applied again"
    assert second.search("火锅") == {"火锅 1", "火锅 2"}
    second.log.close()


def test_replaying_the_feed_changes_nothing(tmp_path: Path) -> None:
    first = Following(tmp_path)
    first.write("火锅 1", "火锅 2", "火锅 3")
    first.replace("火锅 1", "面条")
    last = first.delete("火锅 2")
    with first.running():
        first.wait_for(last)
    first.log.close()
    before = first.search("火锅 面条")
    for path in (tmp_path / DIRECTORY).glob("meta.json"):
        path.write_text("damaged")
    again = Following(tmp_path)
    with again.running():
        again.wait_for(last)
    assert again.search("火锅 面条") == before == {"火锅 1", "火锅 3"}
    again.log.close()


def test_next_run_resumes_after_a_failure(tmp_path: Path) -> None:
    following = Following(tmp_path, batch_max=2)
    last = following.write("火锅 1", "火锅 2", "火锅 3")
    with TantivyLexicalWriter(tmp_path / DIRECTORY, HEAP_BYTES), pytest.raises(ValueError, match="LockBusy"):
        following.indexer.run()
    following.failure = OSError("nobody reads")
    with pytest.raises(OSError, match="nobody"):
        following.indexer.run()
    following.failure = None
    with following.running():
        following.wait_for(last)
    assert following.search("火锅") == {"火锅 1", "火锅 2", "火锅 3"}
    assert following.commits == [2, 3]
    following.log.close()


def test_stopping_an_idle_indexer_does_not_wait(tmp_path: Path) -> None:
    following = Following(tmp_path)
    with following.running():
        pass
    assert following.commits == []
    following.log.close()
