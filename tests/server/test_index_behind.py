"""Tests for lagging indexes: other reads continue, responses report the lag, and waits time out."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import grpc
import pytest
from pydantic import SecretStr

from chat_messages import ids, new_message
from nomemory.server.runtime.settings import Settings
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import query_service_pb2 as q
from rpc_errors import refusal

if TYPE_CHECKING:
    from running_server import Server

NOBODY_LISTENS = "http://127.0.0.1:9/v1"
EAST = q.Embedding(values=[1, 0, 0, 0])


@pytest.fixture
def stuck(own_settings: Settings) -> Settings:
    """Settings of a server whose embedder never answers."""
    return own_settings.copy_with_changes(
        embedder="openai", embedding_model="absent", openai_base_url=NOBODY_LISTENS, openai_api_key=SecretStr("none")
    )


def test_unavailable_embedder_delays_only_semantic_search(
    start: Callable[[Settings], AbstractContextManager[Server]], stuck: Settings
) -> None:
    with start(stuck) as server:
        message = new_message("u", "waits", "hello 你好")
        token = server.ingest.WriteMessages(i.WriteMessagesRequest(messages=[message])).write_token
        words = server.query.LexicalSearch(q.LexicalSearchRequest(user_id="u", query_text="hello", at_least=token))
        assert ids(words.items) == ["waits"]
        assert not words.index_lagging

        near = server.query.SemanticSearch(q.SemanticSearchRequest(user_id="u", query_embedding=EAST))
        assert near.index_lagging
        assert not near.items
        other = server.query.SemanticSearch(q.SemanticSearchRequest(user_id="other", query_embedding=EAST))
        assert not other.index_lagging

        with pytest.raises(grpc.RpcError) as error:
            server.query.SemanticSearch(
                q.SemanticSearchRequest(user_id="u", query_embedding=EAST, at_least=token), timeout=0.5
            )
        assert error.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert refusal(error.value).reason == "INDEX_LAGGING"
        waiting_for_others = q.SemanticSearchRequest(user_id="other", query_embedding=EAST, at_least=token)
        assert not server.query.SemanticSearch(waiting_for_others, timeout=5).items

        with pytest.raises(grpc.RpcError) as error:
            server.query.SemanticSearch(q.SemanticSearchRequest(user_id="u", query_text="hi"), timeout=20)
        unavailable = refusal(error.value)
        assert (unavailable.code, unavailable.reason) == (grpc.StatusCode.UNAVAILABLE, "EMBEDDER_UNAVAILABLE")
        assert unavailable.retry_s is not None

        status = server.ingest.GetIndexStatus(i.GetIndexStatusRequest(user_id="u"))
        assert (status.vector.pending, status.lexical.pending) == (1, 0)
        assert status.vector.error

        with_vector = new_message("u", "brings-its-own", "hello again", ts=1, embedding=EAST.values)
        server.ingest.WriteMessages(i.WriteMessagesRequest(messages=[with_vector]))
