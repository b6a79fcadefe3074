"""Checks of what a server says that it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import metadata
from types import MappingProxyType
from typing import Final

from nomemory.cli.check import Check
from nomemory.cli.figures import embedding_model
from nomemory.v1 import server_service_pb2

QUERY: Final = "query"
INGEST: Final = "ingest"
SERVICES: Final[Mapping[str, str]] = MappingProxyType(
    {
        QUERY: "nomemory.v1.QueryService",
        INGEST: "nomemory.v1.IngestService",
        "recall": "nomemory.v1.RecallService",
    }
)
"""The service that a server serves if it has a feature."""


def check_info(info: server_service_pb2.GetServerInfoResponse) -> Iterator[Check]:
    """Check whether a server fits this client, and name what it can do."""
    yield check_version(info.version, metadata.version("nomemory-client"))
    yield Check("Server's features", "ok", ", ".join(info.features) or "none")
    if QUERY in info.features:
        yield _check_embedder(info)


def check_version(server: str, client: str) -> Check:
    """Compare the versions of server and client. They share a contract if they differ in the last number only."""
    if _contract(server) == _contract(client):
        return Check("Server's version", "ok", server)
    finding = f"{server}, and this client is {client}: some calls may fail"
    return Check("Server's version", "warn", finding, "Run the same version of nomemory here and there.")


def _contract(version: str) -> list[str]:
    return version.split(".")[:2]


def _check_embedder(info: server_service_pb2.GetServerInfoResponse) -> Check:
    if model := embedding_model(info):
        return Check("Server's embedder", "ok", model)
    finding = "none: it searches for no text's meaning"
    return Check("Server's embedder", "warn", finding, "Set NOMEMORY_EMBEDDER where the server runs.")
