"""A server over the data of a former version: its index is built anew from the log, and the old one is gone."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import tantivy
from lexical.engine import HEAP_BYTES

from nomemory.server.lexical.tantivy.schema import DIRECTORY
from nomemory.server.lexical.tantivy.writer import TantivyLexicalWriter
from nomemory.server.settings import Settings
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import query_service_pb2 as q
from talk import ids, said

if TYPE_CHECKING:
    from conftest import Server

    Start = Callable[[Settings], AbstractContextManager[Server]]

FORMER = "lexical-v2"


def make_former(directory: Path) -> None:
    """Make an index with the fields that the former version had, as far as it matters: not those of this one."""
    directory.mkdir()
    fields = tantivy.SchemaBuilder()
    fields.add_text_field("user", tokenizer_name="raw")
    tantivy.Index(fields.build(), path=str(directory))


def test_a_server_over_former_data_catches_up(start: Start, own_settings: Settings) -> None:
    with start(own_settings) as server:
        token = server.ingest.WriteMessages(
            i.WriteMessagesRequest(
                messages=[said("u", "m", "we went by bus", embedding=[1, 0, 0, 0], metadata={"a": "b"})]
            )
        ).write_token
    (own_settings.server.data / DIRECTORY).rename(
        own_settings.server.data / "moved"
    )  # what it held is in no index any more
    make_former(own_settings.server.data / FORMER)
    with start(own_settings) as server:
        request = q.LexicalSearchRequest(user_id="u", query_text="go bus", at_least=token)
        request.filter.metadata["a"] = "b"
        assert ids(server.query.LexicalSearch(request, timeout=20).items) == ["m"]
    assert not (own_settings.server.data / FORMER).exists()
    assert (own_settings.server.data / "moved").exists(), "nothing else was touched"


def test_a_writer_in_another_directory_deletes_no_former_index(tmp_path: Path) -> None:
    make_former(tmp_path / FORMER)
    with TantivyLexicalWriter(tmp_path / "words", HEAP_BYTES):
        assert (tmp_path / FORMER).exists()
    with TantivyLexicalWriter(tmp_path / DIRECTORY, HEAP_BYTES):
        assert not (tmp_path / FORMER).exists()
