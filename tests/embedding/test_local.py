"""Tests for the local embedder: vectors, priority of queries, and recovery from crashes."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest
import pytest_asyncio

from nomemory.server.embedding.local import LocalEmbedder, get_cache_directory
from nomemory.server.embedding.local_model import PACKAGE_DIMENSION as DIMENSION
from nomemory.server.embedding.local_model import create_package_model, is_local_model_available
from nomemory.server.embedding.protocol import TextRejectedError
from nomemory.server.embedding.vector import Vector
from nomemory.server.faults import Fault, Reason

pytestmark = [
    pytest.mark.skipif(not is_local_model_available(), reason="the local embedder has no package for this platform"),
    pytest.mark.asyncio(loop_scope="module"),
]

LONG = "我从小就不吃辣椒，因为胃不好。" * 70


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def embedder() -> AsyncIterator[LocalEmbedder]:
    """An embedder for all tests of the module. Some kill its processes."""
    embedder = LocalEmbedder(60, create_package_model(get_cache_directory()))
    yield embedder
    await embedder.close()


def cosine(first: Vector, other: Vector) -> float:
    return float(np.frombuffer(first, "<f4") @ np.frombuffer(other, "<f4"))


def pid(process_id: int | None) -> int:
    assert process_id is not None
    return process_id


async def test_vectors_are_normalized_and_have_the_dimension(embedder: LocalEmbedder) -> None:
    vectors = [await embedder.embed_query("tea"), *await embedder.embed_documents(["tea", "茶"])]
    assert [len(vector) for vector in vectors] == [4 * DIMENSION] * 3
    assert [cosine(vector, vector) for vector in vectors] == pytest.approx([1] * 3, abs=1e-6)


async def test_texts_of_similar_meaning_have_higher_cosine_similarity(embedder: LocalEmbedder) -> None:
    about_food, about_work = await embedder.embed_documents(["我从小就不吃辣椒", "The report is due on Friday."])
    question = await embedder.embed_query("他吃辣吗？")
    assert cosine(question, about_food) > cosine(question, about_work)


async def test_text_vector_does_not_depend_on_the_batch(embedder: LocalEmbedder) -> None:
    texts = ["tea", "coffee and cake", "茶"]
    together = await embedder.embed_documents(texts)
    alone = [(await embedder.embed_documents([text]))[0] for text in texts]
    for item, other in zip(alone, together, strict=True):
        assert np.frombuffer(item, "<f4") == pytest.approx(np.frombuffer(other, "<f4"), abs=1e-6)


async def test_unsupported_characters_are_replaced_before_embedding(embedder: LocalEmbedder) -> None:
    whole, cut, other = await embedder.embed_documents(["tea\0 with milk", "tea", "tea  with milk"])
    assert cosine(whole, other) > cosine(whole, cut)
    assert len(await embedder.embed_query("half a pair \ud800")) == 4 * DIMENSION
    assert len((await embedder.embed_documents([""]))[0]) == 4 * DIMENSION


async def test_query_does_not_wait_for_documents(embedder: LocalEmbedder) -> None:
    await embedder.embed_documents(["hello"])
    documents = asyncio.create_task(embedder.embed_documents([LONG] * 3))
    for number in range(5):
        await embedder.embed_query(f"query {number}")
    assert not documents.done()
    documents.cancel()


async def test_killed_process_is_replaced_and_the_text_retried(embedder: LocalEmbedder) -> None:
    await embedder.embed_documents(["hello"])
    documents = asyncio.create_task(embedder.embed_documents([LONG, "tea"]))
    await asyncio.sleep(0.05)
    os.kill(pid(embedder.process_ids[1]), signal.SIGKILL)
    assert len(await documents) == 2


async def test_text_that_crashes_the_model_twice_is_rejected(embedder: LocalEmbedder) -> None:
    await embedder.embed_documents(["hello"])
    documents = asyncio.create_task(embedder.embed_documents([LONG, "tea"]))
    killed: set[int] = set()
    while not documents.done():
        await asyncio.sleep(0.05)
        process_id = embedder.process_ids[1]
        if process_id is not None and process_id not in killed and len(killed) < 2:
            killed.add(process_id)
            os.kill(process_id, signal.SIGKILL)
    assert len(killed) == 2
    with pytest.raises(TextRejectedError) as refused:
        await documents
    assert refused.value.position == 0
    assert len(await embedder.embed_documents(["tea"])) == 1


async def test_query_in_flight_during_a_crash_is_unavailable_and_the_next_succeeds(embedder: LocalEmbedder) -> None:
    await embedder.embed_documents(["hello"])
    os.kill(pid(embedder.process_ids[0]), signal.SIGSTOP)
    query = asyncio.create_task(embedder.embed_query("tea"))
    await asyncio.sleep(0)
    os.kill(pid(embedder.process_ids[0]), signal.SIGKILL)
    with pytest.raises(Fault) as failed:
        await query
    assert failed.value.reason == Reason.ERROR_REASON_EMBEDDER_UNAVAILABLE
    assert failed.value.retry_after_s is not None
    assert len(await embedder.embed_query("tea")) == 4 * DIMENSION


def threads_of(process_id: int) -> int:
    return len(list(Path(f"/proc/{process_id}/task").iterdir()))


async def test_document_process_has_low_priority_and_one_thread(embedder: LocalEmbedder) -> None:
    await embedder.embed_documents(["hello"])
    await embedder.embed_documents(["tea"])
    queries, documents = (pid(process_id) for process_id in embedder.process_ids)
    assert os.getpriority(os.PRIO_PROCESS, documents) == os.getpriority(os.PRIO_PROCESS, queries) + 10
    assert (
        threads_of(documents) <= 3
    )  # two threads are idle: one of ONNX Runtime, and one that ends an orphaned process
