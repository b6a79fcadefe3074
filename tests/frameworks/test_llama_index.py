"""Tests for the LlamaIndex retriever with the real package."""

from __future__ import annotations

import pytest
from frameworks.sample_messages import CANARY, PEANUTS

from nomemory.client import Client

pytest.importorskip("llama_index.core", reason="scripts/check_frameworks installs it")

from llama_index.core.schema import QueryBundle

from nomemory.frameworks.llama_index_retriever import MemoryRetriever


def test_retriever_returns_complete_messages(client: Client, ann: str) -> None:
    (document,) = MemoryRetriever(client, ann, top_k=1).retrieve("What am I allergic to?")
    assert (document.node.node_id, document.node.get_content()) == ("a1", PEANUTS)
    assert document.node.metadata["said_at"] == "2026-01-05T09:01:00Z"
    assert document.score
    assert document.score > 0


async def test_a_retriever_uses_its_configured_user_and_options(client: Client, ann: str) -> None:
    documents = await MemoryRetriever(client, ann, conversation_id="trip").aretrieve(QueryBundle("canaries, Kochi"))
    assert {item.node.metadata["conversation_id"] for item in documents} == {"trip"}
    assert CANARY not in str(documents)
