"""`nomemory doctor` looks at the vectors on a Qdrant server: a payload index that lacks points hides messages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from qdrant_client import models

from nomemory.cli.doctor.data import check_qdrant
from nomemory.server.embedding.factory import NoEmbedder
from nomemory.server.settings import Settings
from nomemory.server.vector.collection import collection_name
from proofs.qdrant_stand_in import StandIn, qdrant_stand_in

NAME = collection_name(NoEmbedder.model, 4)


@pytest.fixture
def qdrant() -> Iterator[StandIn]:
    with qdrant_stand_in() as stand_in:
        yield stand_in


def found(own_settings: Settings, url: str) -> tuple[str, str]:
    check = check_qdrant(own_settings, url)
    return check.state, check.finding


def test_what_is_there_is_told(own_settings: Settings, qdrant: StandIn) -> None:
    assert found(own_settings, qdrant.url) == ("skip", "no collection of this embedder yet")
    qdrant.points.create_collection(NAME, models.VectorParams(size=4, distance=models.Distance.COSINE))
    qdrant.points.upsert(NAME, [models.PointStruct(id=1, vector=[1.0, 0.0, 0.0, 0.0], payload={"user_id": "u"})])
    assert found(own_settings, qdrant.url) == ("ok", f"{NAME}: 1 points, which every payload index knows")
    qdrant.unindexed = 1
    state, finding = found(own_settings, qdrant.url)
    assert state == "fail"
    assert "user_id" in finding


def test_a_server_that_does_not_answer_is_told(own_settings: Settings) -> None:
    state, finding = found(own_settings, "grpc://127.0.0.1:9")
    assert (state, finding.startswith("cannot be looked at")) == ("fail", True)
