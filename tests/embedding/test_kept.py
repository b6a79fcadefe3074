"""Vectors that outlast the process."""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from embedding.test_cached import CountingEmbedder

from nomemory.server.embedding import vector_store as kept_vectors
from nomemory.server.embedding.cache_erasure import CacheErasure
from nomemory.server.embedding.factory import EmbedderSettingsError, choose_embedder
from nomemory.server.embedding.protocol import TextRefusedError
from nomemory.server.embedding.vector_store import KeptEmbedder, KeptVectors, KeptVectorsError
from nomemory.server.embedding.wrappers import CachedEmbedder
from nomemory.server.settings import Settings


def kept(path: Path, embedder: CountingEmbedder, model: str = "counting") -> KeptEmbedder:
    """Keep vectors of one byte: the counting embedder's are the text itself."""
    return KeptEmbedder(embedder, KeptVectors(path, model, 1))


def contents(directory: Path) -> bytes:
    return b"".join(file.read_bytes() for file in directory.iterdir())


async def test_what_was_embedded_once_is_not_embedded_by_the_next_process(tmp_path: Path) -> None:
    first, second = CountingEmbedder(), CountingEmbedder()
    for embedder in (first, second):
        one = kept(tmp_path / "sub" / "vectors.db", embedder)
        assert await one.embed_documents(["a", "b", "a"]) == [b"a", b"b", b"a"]
        assert await one.embed_query("q") == b"q"
        assert await one.embed_query("q") == b"q"
        await one.close()
    assert (first.calls, first.asked) == ([["a", "b", "a"]], ["q", "closed"])
    assert (second.calls, second.asked) == ([], ["closed"])
    assert kept_vectors.count(tmp_path / "sub" / "vectors.db") == 3


async def test_only_what_is_missing_is_embedded_and_the_order_is_kept(tmp_path: Path) -> None:
    embedder = CountingEmbedder()
    one = kept(tmp_path / "vectors.db", embedder)
    await one.embed_documents(["b"])
    assert await one.embed_documents(["a", "b", "c"]) == [b"a", b"b", b"c"]
    assert embedder.calls == [["b"], ["a", "c"]]
    await one.close()


async def test_a_query_is_not_a_document_and_models_do_not_share(tmp_path: Path) -> None:
    embedder = CountingEmbedder()
    one, other = kept(tmp_path / "vectors.db", embedder), kept(tmp_path / "vectors.db", embedder, "another")
    await one.embed_documents(["a"])
    await one.embed_query("a")
    await other.embed_query("a")
    assert embedder.asked == ["a", "a"]
    await one.close()
    await other.close()


async def test_a_refusal_names_the_place_in_the_whole_call_and_is_not_kept(tmp_path: Path) -> None:
    embedder = CountingEmbedder()
    one = kept(tmp_path / "vectors.db", embedder)
    await one.embed_documents(["a"])
    embedder.refused = {"c"}
    with pytest.raises(TextRefusedError) as refused:
        await one.embed_documents(["a", "b", "c"])
    assert refused.value.position == 2
    embedder.refused = set()
    assert await one.embed_documents(["c"]) == [b"c"]
    await one.close()


async def test_a_file_that_breaks_costs_time_only(tmp_path: Path) -> None:
    embedder = CountingEmbedder()
    one = kept(tmp_path / "vectors.db", embedder)
    with sqlite3.connect(tmp_path / "vectors.db") as file:
        file.execute("DROP TABLE vectors")
    assert await one.embed_query("q") == await one.embed_query("q") == b"q"
    assert embedder.asked == ["q", "q"]
    await one.close()


async def test_a_vector_of_another_length_is_not_believed(tmp_path: Path) -> None:
    embedder = CountingEmbedder()
    one = kept(tmp_path / "vectors.db", embedder)
    await one.embed_query("q")
    with sqlite3.connect(tmp_path / "vectors.db") as file:
        file.execute("UPDATE vectors SET vector = x'0000'")
    assert await one.embed_query("q") == b"q"
    assert embedder.asked == ["q", "q"]
    await one.close()


def test_the_file_has_no_text_and_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "vectors.db"
    vectors = KeptVectors(path, "counting", 3)
    vectors.put("我不吃辣 and my name is Zephyrquill", "document", b"123")
    vectors.close()
    written = contents(tmp_path)
    assert b"123" in written
    assert b"Zephyrquill" not in written
    assert "不吃辣".encode() not in written
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_a_setting_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "vectors.db"
    endpoint = {"embedder": "openai", "embedding_model": "bge", "embedding_dimension": 1, "openai_api_key": "none"}
    for settings, is_kept in ((Settings.from_environment(**endpoint | {"embedding_cache": path}), True),
                              (Settings.from_environment(**endpoint), False),
                              (Settings.from_environment(embedder="none", embedding_cache=path), False)):  # fmt: skip
        chosen = choose_embedder(settings)
        assert isinstance(chosen, CachedEmbedder)
        assert isinstance(chosen._within, KeptEmbedder) == is_kept
        await chosen.close()
    path.write_bytes(b"something else altogether" * 100)
    with pytest.raises(EmbedderSettingsError, match=r"vectors\.db"):
        choose_embedder(Settings.from_environment(**endpoint | {"embedding_cache": path}))


async def test_a_file_keeps_what_comes_into_it_while_it_is_cleaned(tmp_path: Path) -> None:
    path = tmp_path / "vectors.db"
    vectors = KeptVectors(path, "counting", 3)
    for text in ("living", "gone"):
        vectors.put(text, "document", text[:3].encode())

    def texts() -> Iterator[list[str]]:
        with closing(KeptVectors(path, "counting", 3)) as beside:
            beside.put("late", "document", b"lat")
        yield ["living", "never embedded"]

    await CacheErasure(path, "counting", texts).wipe_removed()
    found = [vectors.get(text, "document") for text in ("living", "gone", "late")]
    assert found == [b"liv", None, b"lat"]
    assert b"gon" not in contents(tmp_path)
    vectors.close()


async def test_a_file_that_cannot_be_cleaned_is_said_and_one_that_is_not_there_is_clean(tmp_path: Path) -> None:
    await CacheErasure(tmp_path / "none.db", "counting", list).wipe_removed()
    path = tmp_path / "vectors.db"
    path.write_bytes(b"something else altogether" * 100)
    with pytest.raises(KeptVectorsError, match=r"vectors\.db"):
        await CacheErasure(path, "counting", list).wipe_removed()
