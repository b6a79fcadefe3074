"""The methods of the contract that the inspector may call. Each of them only reads."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from google.protobuf import descriptor_pool
from google.protobuf.descriptor import MethodDescriptor

from nomemory.v1 import ingest_service_pb2 as _ingest
from nomemory.v1 import query_service_pb2 as _query
from nomemory.v1 import recall_service_pb2 as _recall
from nomemory.v1 import server_service_pb2 as _server

_NAMES: Final = (
    f"{_query.DESCRIPTOR.package}.QueryService.ListUsers",
    f"{_query.DESCRIPTOR.package}.QueryService.ListMessages",
    f"{_query.DESCRIPTOR.package}.QueryService.CountMessages",
    f"{_query.DESCRIPTOR.package}.QueryService.LexicalSearch",
    f"{_query.DESCRIPTOR.package}.QueryService.HybridSearch",
    f"{_query.DESCRIPTOR.package}.QueryService.BatchGetMessages",
    f"{_recall.DESCRIPTOR.package}.RecallService.StreamRecall",
    f"{_server.DESCRIPTOR.package}.ServerService.GetServerInfo",
    f"{_ingest.DESCRIPTOR.package}.IngestService.GetIndexStatus",
)


def _path(method: MethodDescriptor) -> str:
    return f"/{method.containing_service.full_name}/{method.name}"


_METHODS: Final = tuple(descriptor_pool.Default().FindMethodByName(name) for name in _NAMES)
READING: Final[Mapping[str, MethodDescriptor]] = MappingProxyType({_path(method): method for method in _METHODS})
"""The methods by their paths: `/nomemory.v1.QueryService/ListMessages`."""
