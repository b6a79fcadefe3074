"""What is remembered of queries and documents, by the process and beyond it."""

from __future__ import annotations

import asyncio
import sqlite3
import stat
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from nomemory.server.embedding import vector_store as kept_vectors
from nomemory.server.embedding.factory import EmbedderSettingsError, choose_embedder
from nomemory.server.embedding.protocol import TextRefusedError, unavailable
from nomemory.server.embedding.vector import Vector
from nomemory.server.embedding.vector_store import (
    CacheErasure,
    DocumentVectors,
    KeptEmbedder,
    KeptVectors,
    KeptVectorsError,
)
from nomemory.server.embedding.wrappers import CachedEmbedder
from nomemory.server.faults import Fault
from nomemory.server.settings import Settings


class CountingEmbedder:
    """Embeds a text as its own bytes, and writes down what it is asked."""

    kind, model, dimension = "local", "counting", 3

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.calls: list[list[str]] = []
        self.is_down = False
        self.refused: set[str] = set()
        self.gate = asyncio.Event()
        self.gate.set()

    async def embed_query(self, text: str) -> Vector:
        self.asked.append(text)
        await self.gate.wait()
        self._check()
        return text.encode()

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        self.calls.append(list(texts))
        self._check()
        for position, text in enumerate(texts):
            if text in self.refused:
                raise TextRefusedError(position, "refused")
        return [text.encode() for text in texts]

    async def close(self) -> None:
        self.asked.append("closed")

    def _check(self) -> None:
        if self.is_down:
            raise unavailable("away", "connection")


def never() -> bool:
    return False


async def test_a_query_is_embedded_once_until_it_is_the_one_not_asked_for_longest() -> None:
    embedder = CountingEmbedder()
    cached = CachedEmbedder(embedder, 2)
    for text in ("a", "b", "a", "c", "a", "b"):
        assert await cached.embed_query(text) == text.encode()
    assert embedder.asked == ["a", "b", "c", "b"]


async def test_equal_queries_that_come_together_are_embedded_once() -> None:
    embedder = CountingEmbedder()
    cached = CachedEmbedder(embedder, 0)
    assert await asyncio.gather(*(cached.embed_query("a") for _ in range(10))) == [b"a"] * 10
    await cached.embed_query("a")
    assert embedder.asked == ["a", "a"], "together once, and nothing is kept"


async def test_who_gives_up_does_not_take_the_answer_from_the_others() -> None:
    embedder = CountingEmbedder()
    embedder.gate.clear()
    cached = CachedEmbedder(embedder, 10)
    impatient, patient = (asyncio.create_task(cached.embed_query("a")) for _ in range(2))
    await asyncio.sleep(0)
    impatient.cancel()
    embedder.gate.set()
    assert await patient == b"a"
    assert embedder.asked == ["a"]


async def test_a_failure_is_shared_but_not_kept() -> None:
    embedder = CountingEmbedder()
    embedder.is_down = True
    cached = CachedEmbedder(embedder, 10)
    failures = await asyncio.gather(*(cached.embed_query("a") for _ in range(3)), return_exceptions=True)
    assert [type(failure) for failure in failures] == [Fault] * 3
    embedder.is_down = False
    assert await cached.embed_query("a") == b"a"
    assert embedder.asked == ["a", "a"]


async def test_everything_else_is_passed_on() -> None:
    embedder = CountingEmbedder()
    cached = CachedEmbedder(embedder, 10)
    assert (cached.kind, cached.model, cached.dimension) == ("local", "counting", 3)
    assert await cached.embed_documents(["a", "a"]) == [b"a", b"a"]
    await cached.close()
    assert embedder.asked == ["closed"]


async def test_each_distinct_document_text_is_embedded_once_in_calls_of_the_given_size() -> None:
    embedder = CountingEmbedder()
    vectors = DocumentVectors(embedder, 2, 10)
    assert await vectors.embed(["a", "b", "a", "c", "b"], never)
    assert await vectors.embed(["c", "d"], never)
    assert embedder.calls == [["a", "b"], ["c"], ["d"]]
    assert vectors.vectors(["d", "a", "a"]) == [b"d", b"a", b"a"]
    assert vectors.embedded == 4


async def test_a_refused_text_is_remembered_and_the_others_are_embedded() -> None:
    embedder = CountingEmbedder()
    embedder.refused = {"b", "c"}
    vectors = DocumentVectors(embedder, 10, 10)
    assert await vectors.embed(["a", "b", "c", "d"], never)
    assert vectors.vectors(["a", "d"]) == [b"a", b"d"]
    assert vectors.vectors(["a", "b"]) is None
    assert vectors.embedded == 2
    assert await vectors.embed(["b"], never)
    assert embedder.calls[-1] == ["a", "d"]


async def test_what_was_embedded_before_an_interruption_or_a_fault_is_kept() -> None:
    embedder = CountingEmbedder()
    vectors = DocumentVectors(embedder, 1, 10)
    assert not await vectors.embed(["a", "b"], lambda: True)
    embedder.is_down = True
    with pytest.raises(Fault):
        await vectors.embed(["a", "b"], never)
    embedder.is_down = False
    assert await vectors.embed(["a", "b"], never)
    assert embedder.calls == [["a"], ["b"], ["b"]]


async def test_only_the_latest_document_vectors_are_kept() -> None:
    embedder = CountingEmbedder()
    vectors = DocumentVectors(embedder, 10_000, 10)
    await vectors.embed([str(number) for number in range(3000)], never)
    assert len(vectors._kept) == 1024


async def test_a_query_that_nobody_waits_for_any_more_is_withdrawn() -> None:
    embedder = CountingEmbedder()
    embedder.gate.clear()
    withdrawn = asyncio.Event()
    embed = embedder.embed_query

    async def noted(text: str) -> Vector:
        try:
            return await embed(text)
        except asyncio.CancelledError:
            withdrawn.set()
            raise

    embedder.embed_query = noted  # type: ignore[method-assign]
    cached = CachedEmbedder(embedder, 10)
    impatient = [asyncio.create_task(cached.embed_query("a")) for _ in range(2)]
    await asyncio.sleep(0)
    impatient[0].cancel()
    await asyncio.sleep(0)
    assert not withdrawn.is_set()
    impatient[1].cancel()
    await asyncio.wait_for(withdrawn.wait(), 5)
    embedder.gate.set()
    assert await cached.embed_query("a") == b"a", "and can be asked again"


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
