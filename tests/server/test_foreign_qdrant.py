"""Tests that a second log cannot use the Qdrant collections of the first."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from postgres import PrivatePostgres, fresh_schema

from chat_messages import new_message
from nomemory.server.runtime.settings import Settings
from nomemory.server.search.semantic.qdrant.reachability import ForeignCollectionError
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import query_service_pb2 as q
from proofs.fake_qdrant import run_fake_qdrant

if TYPE_CHECKING:
    from running_server import Server

    Start = Callable[[Settings], AbstractContextManager[Server]]

EAST = [1.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize("in_database", [False, True])
def test_server_does_not_start_with_a_qdrant_collection_of_another_log(
    own_settings: Settings, postgres: PrivatePostgres, start: Start, tmp_path: Path, *, in_database: bool
) -> None:
    with run_fake_qdrant() as qdrant:
        ours, theirs = (
            own_settings.copy_with_changes(
                data=tmp_path / name,
                qdrant_url=qdrant.url,
                database_url=fresh_schema(postgres) if in_database else None,
            )
            for name in ("ours", "theirs")
        )
        with start(ours) as server:
            batch = i.WriteMessagesRequest(messages=[new_message("u", "e", "east", embedding=EAST)])
            token = server.ingest.WriteMessages(batch).write_token
            near = q.SemanticSearchRequest(user_id="u", query_embedding=q.Embedding(values=EAST), at_least=token)
            assert len(server.query.SemanticSearch(near, timeout=60).items) == 1
            with pytest.raises(ForeignCollectionError, match="belongs to another message log"), start(theirs):
                pass
            assert len(server.query.SemanticSearch(near, timeout=60).items) == 1
        with start(ours) as server:
            assert len(server.query.SemanticSearch(near, timeout=60).items) == 1
            assert (
                sum(
                    qdrant.points.count(collection.name).count
                    for collection in qdrant.points.get_collections().collections
                )
                == 1
            )
