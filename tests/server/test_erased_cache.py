"""The file of kept vectors loses the vectors of what is erased, and keeps those of messages that live."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from embedding.test_openai_compatible import DIMENSION, Endpoint, endpoint
from server.fleet import until
from server.test_erased_bytes import remains

from nomemory.server.embedding.vector_store import count, digest_of
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import query_service_pb2 as q
from talk import ids, said

if TYPE_CHECKING:
    from pathlib import Path

    from server.test_erased_bytes import Start

    from nomemory.server.settings import Settings

__all__ = ["endpoint"]


def vectors_in(file: Path, *texts: str) -> list[bytes]:
    """Return the vectors that are kept of texts."""
    with closing(sqlite3.connect(file)) as kept:
        by_digest = dict(kept.execute("SELECT digest, vector FROM vectors").fetchall())
    return [by_digest[digest_of(f"openai bge {DIMENSION}", "document", text)] for text in texts]


@pytest.mark.timeout(120)
def test_an_erasure_takes_vectors_out_of_the_file_that_keeps_them(
    start: Start, own_settings: Settings, endpoint: Endpoint, tmp_path: Path
) -> None:
    kept = tmp_path / "kept" / "vectors.db"
    settings = own_settings.with_changes(
        embedder="openai",
        embedding_model="bge",
        embedding_dimension=DIMENSION,
        openai_base_url=endpoint.url,
        openai_api_key="k",
        embedding_cache=kept,
        erase_within_s=1.0,
    )
    with start(settings) as server:
        messages = [said(user, f"m{n}", f"{user} says {n}") for user in ("keeper", "erased") for n in range(5)]
        token = server.ingest.WriteMessages(i.WriteMessagesRequest(messages=messages)).write_token
        search = q.SemanticSearchRequest(user_id="keeper", query_text="what is it", at_least=token, top_k=20)
        assert len(ids([item.message for item in server.query.SemanticSearch(search).items])) == 5
        search.user_id = "erased"
        assert len(server.query.SemanticSearch(search).items) == 5
        assert count(kept) == 11
        living, *gone = vectors_in(kept, "keeper says 3", *(f"erased says {n}" for n in range(5)))
        assert all(remains(kept.parent, [vector]) for vector in (living, *gone))
        receipt = server.ingest.EraseUser(i.EraseUserRequest(user_id="erased"))
        assert "embedding_cache" in {one.place for one in receipt.residues if one.HasField("expire_ts")}
        assert until(lambda: count(kept) == 5)
        assert until(lambda: not remains(kept.parent, gone))
        assert remains(kept.parent, [living])
