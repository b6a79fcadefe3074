"""The version, features and limits in the response to GetServerInfo."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from nomemory.server import __version__
from nomemory.server.api.admission.read_admission import ReadAdmission
from nomemory.server.api.identity.factory import requires_credentials
from nomemory.server.api.service import Service
from nomemory.server.api.services.server_service import ServerService
from nomemory.server.api.validation.recall_requests import TURNS_MAX
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.wiring.recall_planner import uses_chat_model
from nomemory.server.runtime.wiring.recall_wiring import create_skill_library
from nomemory.server.search.semantic.active_index import ActiveSpace
from nomemory.v1 import server_service_pb2 as pb

_QUERY, _INGEST, _RECALL = "query", "ingest", "recall"

_FEATURES: Final = {
    "nomemory.v1.QueryService": _QUERY,
    "nomemory.v1.IngestService": _INGEST,
    "nomemory.v1.RecallService": _RECALL,
}
"""Feature names of the services."""


def make_server_service(
    settings: Settings,
    served: Sequence[Service],
    spaces: ActiveSpace | None = None,
    reads: ReadAdmission | None = None,
) -> ServerService:
    """Construct the ServerService.

    `served` contains the other services of the server. `spaces` and `reads` are None on a recall-only server.
    """
    services = [_FEATURES[service.full_name] for service in served]
    embeds = spaces is not None and spaces.current_space.embedder.kind != "none"
    return ServerService(
        pb.GetServerInfoResponse(
            version=__version__,
            features=[*services, *_list_optional_features(settings, services, embeds=embeds)],
            limits=_build_server_limits(settings, services),
        ),
        reads,
        spaces,
        create_skill_library(settings).list_names if _RECALL in services else tuple,
    )


def _list_optional_features(settings: Settings, services: Sequence[str], *, embeds: bool) -> Iterator[str]:
    if embeds:
        yield "semantic_search_text"
    if _RECALL in services and uses_chat_model(settings):
        yield "recall_model"
    if requires_credentials(settings):
        yield "authentication"
    if settings.retention.days:
        yield "retention"


def _build_server_limits(settings: Settings, services: Sequence[str]) -> pb.ServerLimits:
    """Return the limits of the services. The limits of a service that the server does not serve are 0."""
    limits = settings.limits
    described = pb.ServerLimits(max_request_bytes=limits.max_request_bytes)
    if _INGEST in services:
        described.max_content_bytes = limits.max_content_bytes
        described.max_batch_messages = limits.max_batch_messages
    if _QUERY in services:
        described.max_page_size = limits.max_page_size
        described.max_top_k = limits.max_top_k
        described.max_inflight_reads_per_user = settings.reads.max_inflight_reads_per_user
        described.max_inflight_reads_per_caller = settings.reads.max_inflight_reads_per_caller
    if _QUERY in services or _RECALL in services:
        described.max_query_chars = limits.max_query_chars
    if _RECALL in services:
        described.max_turns = TURNS_MAX
    return described
