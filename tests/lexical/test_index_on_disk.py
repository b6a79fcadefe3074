"""Tests for the index on disk: commits, deletions, reopening, concurrent readers, and damage."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import tantivy
from lexical.engine import HEAP_BYTES, OpenTantivyIndex, open_tantivy_index
from lexical.shelf import LATEST, Shelf, message, query

from chat_messages import ids, new_message
from nomemory.server.faults import Fault, Reason
from nomemory.server.message_filter import EVERYTHING
from nomemory.server.runtime.read_threads import ReadThreads
from nomemory.server.runtime.settings import Settings
from nomemory.server.search.grammar.tree import Query
from nomemory.server.search.lexical.protocol import FrozenRanking, IndexUnusableError, LexicalHit, LexicalSearch
from nomemory.server.search.lexical.tantivy.reader import TantivyLexicalIndex
from nomemory.server.search.lexical.tantivy.schema import DIRECTORY, discard_index, open_index
from nomemory.server.search.lexical.tantivy.writer import TantivyLexicalWriter
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import query_service_pb2 as q

if TYPE_CHECKING:
    from running_server import Server

    Start = Callable[[Settings], AbstractContextManager[Server]]


class Reader:
    """A synchronous reader of the index."""

    def __init__(self, index: TantivyLexicalIndex) -> None:
        self._index = index

    def read_applied_sequence(self) -> int:
        return asyncio.run(self._index.read_applied_sequence("u"))

    def freeze(self, user: str, parsed_query: Query) -> FrozenRanking:
        return asyncio.run(self._index.freeze(user, parsed_query, EVERYTHING))

    def search(self, user: str, parsed_query: Query, ranking: FrozenRanking) -> list[LexicalHit]:
        return asyncio.run(self._index.search(LexicalSearch(user, parsed_query, ranking, EVERYTHING, None, 100)))

    def refresh(self) -> None:
        asyncio.run(self._index.refresh())

    def close(self) -> None:
        asyncio.run(self._index.close())


class OnDisk(Shelf):
    """An index with its writer and reader."""

    def __init__(self, directory: Path) -> None:
        super().__init__(open_tantivy_index, directory)
        assert isinstance(self._index, OpenTantivyIndex)
        self.writer, self.reader = self._index.writer, Reader(self._index.reader)


@contextmanager
def shelved(directory: Path, texts: Iterable[str] = ()) -> Iterator[OnDisk]:
    """Open an index with messages of one user."""
    with closing(OnDisk(directory)) as shelf:
        shelf.put_texts("u", *texts)
        yield shelf


def opened(directory: Path) -> Reader:
    """Open a reader."""
    return Reader(TantivyLexicalIndex(directory, ReadThreads(1)))


def matching_numbers(reader: Reader, text: str = "火锅", user: str = "u") -> list[int]:
    """Return the sequences of the matches."""
    parsed_query = query(text)
    return [hit.sequence for hit in reader.search(user, parsed_query, reader.freeze(user, parsed_query))]


def test_removed_message_affects_neither_results_nor_weights(tmp_path: Path) -> None:
    with shelved(tmp_path, ["火锅 1", "火锅 2", "面条"]) as shelf:
        weights = shelf.reader.freeze("u", query("火锅")).weights
        shelf.remove(1)
        assert matching_numbers(shelf.reader) == [2]
        assert matching_numbers(shelf.reader, "") == [3, 2]
        assert shelf.reader.freeze("u", query("火锅")).weights > weights
        shelf.writer.remove_version(1)  # repeated and unknown removals have no effect
        shelf.writer.remove_version(999)
        shelf.writer.commit(5)
        shelf.reader.refresh()
        assert matching_numbers(shelf.reader, "") == [3, 2]


def test_one_commit_can_remove_and_add_versions(tmp_path: Path) -> None:
    with shelved(tmp_path, ["火锅"]) as shelf:
        shelf.writer.add_version(2, message("u", "火锅 new"))
        shelf.writer.remove_version(1)
        shelf.writer.commit(3)
        shelf.reader.refresh()
        assert matching_numbers(shelf.reader) == [2]


def test_reader_sees_commits_only_after_refresh(tmp_path: Path) -> None:
    with shelved(tmp_path) as shelf:
        shelf.writer.add_version(1, message("u", "火锅"))
        shelf.reader.refresh()
        assert (matching_numbers(shelf.reader), shelf.reader.read_applied_sequence()) == ([], 0)
        shelf.writer.commit(7)
        assert (matching_numbers(shelf.reader), shelf.reader.read_applied_sequence()) == ([], 0)
        shelf.reader.refresh()
        assert (matching_numbers(shelf.reader), shelf.reader.read_applied_sequence()) == ([1], 7)


def test_checkpoint_is_not_returned_as_a_message(tmp_path: Path) -> None:
    with shelved(tmp_path, ["火锅"]) as shelf:
        for user in ("", "checkpoint", "1"):
            assert matching_numbers(shelf.reader, "", user) == matching_numbers(shelf.reader, "-x", user) == []


def test_closing_discards_only_uncommitted_changes(tmp_path: Path) -> None:
    shelf = OnDisk(tmp_path)
    shelf.put_texts("u", "火锅", "火锅")
    shelf.writer.add_version(3, message("u", "火锅"))
    shelf.writer.remove_version(1)
    shelf.close()
    with TantivyLexicalWriter(tmp_path, HEAP_BYTES) as writer:
        assert writer.applied_sequence == 2
        writer.add_version(3, message("u", "火锅"))
        writer.commit(3)
    with closing(opened(tmp_path)) as reader:
        assert (set(matching_numbers(reader)), reader.read_applied_sequence()) == ({1, 2, 3}, 3)


def test_a_second_writer_is_rejected(tmp_path: Path) -> None:
    with shelved(tmp_path, ["火锅"]) as shelf:
        with pytest.raises(ValueError, match="LockBusy"):
            TantivyLexicalWriter(tmp_path, HEAP_BYTES)
        assert matching_numbers(shelf.reader) == [1]


def test_reader_in_another_process_sees_commits(tmp_path: Path) -> None:
    script = f"""
import asyncio, sys
from pathlib import Path
from nomemory.server.runtime.read_threads import ReadThreads
from nomemory.server.search.lexical.tantivy.reader import TantivyLexicalIndex
reader = TantivyLexicalIndex(Path({str(tmp_path)!r}), ReadThreads(1))
for _ in sys.stdin:
    asyncio.run(reader.refresh())
    print(asyncio.run(reader.read_applied_sequence("u")), flush=True)
"""
    with (
        shelved(tmp_path) as shelf,
        subprocess.Popen(
            [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as child,
    ):
        assert child.stdin
        assert child.stdout
        for applied in (1, 2, 3):
            shelf.put_texts("u", "火锅")
            child.stdin.write("look\n")
            child.stdin.flush()
            assert int(child.stdout.readline()) == applied
        child.stdin.close()


def damage(directory: Path, how: str) -> None:
    """Damage a closed index."""
    if how == "another schema":
        for path in directory.iterdir():
            path.unlink()
        fields = tantivy.SchemaBuilder()
        fields.add_text_field("user", tokenizer_name="raw")
        tantivy.Index(fields.build(), path=str(directory))
        return
    pattern, cut = {
        "no meta": ("meta.json", None),
        "half a meta": ("meta.json", 40),
        "half a segment": ("*.term", 9),
        "hardly any terms": ("*.term", 5),
        "hardly a store": ("*.store", 4),
        "hardly any columns": ("*.fast", 7),
    }[how]
    victim = max(directory.glob(pattern), key=lambda path: path.stat().st_size)
    content = victim.read_bytes()
    victim.unlink()
    if cut is not None:
        victim.write_bytes(content[:cut])


PANICS = ["hardly any terms", "hardly a store", "hardly any columns"]
"""Damage that the engine answers with a panic, which is no Exception."""


@pytest.mark.parametrize("how", ["half a meta", "half a segment", "another schema", *PANICS])
def test_damaged_index_is_rejected_by_readers_and_rebuilt_by_the_writer(tmp_path: Path, how: str) -> None:
    with shelved(tmp_path, ["火锅"]):
        pass
    damage(tmp_path, how)
    with pytest.raises(IndexUnusableError):
        TantivyLexicalIndex(tmp_path, ReadThreads(1))
    with TantivyLexicalWriter(tmp_path, HEAP_BYTES) as writer, closing(opened(tmp_path)) as reader:
        assert (writer.applied_sequence, reader.read_applied_sequence(), matching_numbers(reader)) == (0, 0, [])
        writer.add_version(1, message("u", "火锅"))
        writer.commit(1)
        reader.refresh()
        assert matching_numbers(reader) == [1]


def test_reader_survives_a_rebuild_of_its_index(tmp_path: Path) -> None:
    with shelved(tmp_path, ["火锅", "火锅"]):
        reader = opened(tmp_path)
    damage(tmp_path, "half a meta")
    with pytest.raises(Fault) as raised:
        reader.refresh()
    assert raised.value.reason == Reason.ERROR_REASON_INDEX_UNAVAILABLE
    assert set(matching_numbers(reader)) == {1, 2}, "the reader is unchanged"
    with TantivyLexicalWriter(tmp_path, HEAP_BYTES) as writer:
        writer.add_version(5, message("u", "火锅"))
        writer.commit(5)
        reader.refresh()
        assert (matching_numbers(reader), reader.read_applied_sequence()) == ([5], 5)
    reader.close()


def test_missing_index_is_read_as_empty(tmp_path: Path) -> None:
    with closing(opened(tmp_path / "deep" / "down")) as reader:
        assert (reader.read_applied_sequence(), matching_numbers(reader)) == (0, [])


@pytest.mark.parametrize("how", ["half a segment", *PANICS])
def test_commit_to_damaged_files_fails_and_the_next_writer_rebuilds(tmp_path: Path, how: str) -> None:
    with shelved(tmp_path, ["火锅", "火锅"]) as shelf:
        damage(tmp_path, how)
        shelf.writer.add_version(3, message("u", "火锅"))
        with pytest.raises(IndexUnusableError):
            shelf.writer.commit(3)
        assert shelf.writer.applied_sequence == 2
    with TantivyLexicalWriter(tmp_path, HEAP_BYTES) as writer:
        assert writer.applied_sequence == 0


@pytest.mark.parametrize("how", ["half a segment", *PANICS])
def test_unreadable_commit_leaves_the_reader_unchanged(tmp_path: Path, how: str) -> None:
    with shelved(tmp_path) as shelf, closing(opened(tmp_path)) as reader:
        shelf.put_texts("u", "火锅")
        damage(tmp_path, how)
        with pytest.raises(Fault) as raised:
            reader.refresh()
        assert raised.value.reason == Reason.ERROR_REASON_INDEX_UNAVAILABLE
        assert raised.value.retry_after_s
        assert (reader.read_applied_sequence(), matching_numbers(reader)) == (0, [])


def test_search_panic_is_raised_as_a_fault(tmp_path: Path) -> None:
    with shelved(tmp_path, ["火锅 b c"] * 3):
        pass
    positions = next(tmp_path.glob("*.pos"))
    positions.write_bytes(b"\xff" + positions.read_bytes()[1:])
    phrase = query('"b c"')
    with closing(opened(tmp_path)) as reader:
        for call in (
            lambda: reader.freeze("u", phrase),
            lambda: reader.search("u", phrase, FrozenRanking(LATEST, (1.0,))),
        ):
            with pytest.raises(Fault) as raised:
                call()
            assert raised.value.reason == Reason.ERROR_REASON_INDEX_UNAVAILABLE
            assert raised.value.retry_after_s


FORMER = "lexical-v2"


def make_former(directory: Path) -> None:
    """Create an index with the fields of the previous version, which differ from the current ones."""
    directory.mkdir()
    fields = tantivy.SchemaBuilder()
    fields.add_text_field("user", tokenizer_name="raw")
    tantivy.Index(fields.build(), path=str(directory))


def test_server_on_older_data_catches_up(start: Start, own_settings: Settings) -> None:
    with start(own_settings) as server:
        token = server.ingest.WriteMessages(
            i.WriteMessagesRequest(
                messages=[new_message("u", "m", "we went by bus", embedding=[1, 0, 0, 0], metadata={"a": "b"})]
            )
        ).write_token
    (own_settings.server.data / DIRECTORY).rename(
        own_settings.server.data / "moved"
    )  # its messages are in no index anymore
    make_former(own_settings.server.data / FORMER)
    with start(own_settings) as server:
        request = q.LexicalSearchRequest(user_id="u", query_text="go bus", at_least=token)
        request.filter.metadata["a"] = "b"
        assert ids(server.query.LexicalSearch(request, timeout=20).items) == ["m"]
    assert not (own_settings.server.data / FORMER).exists()
    assert (own_settings.server.data / "moved").exists(), "other files are unchanged"


def test_writer_in_another_directory_deletes_no_old_index(tmp_path: Path) -> None:
    make_former(tmp_path / FORMER)
    with TantivyLexicalWriter(tmp_path / "words", HEAP_BYTES):
        assert (tmp_path / FORMER).exists()
    with TantivyLexicalWriter(tmp_path / DIRECTORY, HEAP_BYTES):
        assert not (tmp_path / FORMER).exists()


def test_index_is_deleted_despite_a_new_reader_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tmp_path / "lexical"
    open_index(directory)
    times, rmdir = iter(range(3)), os.rmdir

    def after_a_lock(path: Any, **options: Any) -> None:  # noqa: ANN401 - as `os.rmdir`
        if next(times, None) is not None:
            (directory / ".tantivy-meta.lock").touch()
        rmdir(path, **options)

    monkeypatch.setattr(os, "rmdir", after_a_lock)
    discard_index(directory)
    assert not directory.exists()


def test_index_that_cannot_be_deleted_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tmp_path / "lexical"
    open_index(directory)

    def refuse(_path: object, **_options: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "rmdir", refuse)
    with pytest.raises(PermissionError):
        discard_index(directory)
