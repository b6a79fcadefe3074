"""What a server tells of itself, from its settings and the services that it serves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from nomemory.server import __version__
from nomemory.server.admission.scheduler import ReadScheduler
from nomemory.server.composition.recall_host import answers_with_model
from nomemory.server.identity.factory import checks_credentials
from nomemory.server.rpc.call import Service
from nomemory.server.rpc.server_service import ServerService
from nomemory.server.settings import Settings
from nomemory.server.vector.space import ServingSpace
from nomemory.v1 import server_service_pb2 as pb

QUERY, INGEST, RECALL = "query", "ingest", "recall"

_SERVICES: Final = {
    "nomemory.v1.QueryService": QUERY,
    "nomemory.v1.IngestService": INGEST,
    "nomemory.v1.RecallService": RECALL,
}
"""The feature that each service is."""


def server_service(
    settings: Settings, served: Sequence[Service], spaces: ServingSpace | None, scheduler: ReadScheduler | None
) -> ServerService:
    """Make the service that describes a server.

    Args:
        settings: the server's.
        served: the other services of this server.
        spaces: what the server searches by meaning; None where another server does.
        scheduler: in front of its reads; None where another server reads.
    """
    services = [_SERVICES[service.full_name] for service in served]
    embeds = spaces is not None and spaces.now.embedder.kind != "none"
    return ServerService(
        pb.GetServerInfoResponse(
            version=__version__,
            features=[*services, *_further_features(settings, services, embeds=embeds)],
            limits=_limits(settings, services),
        ),
        scheduler,
        spaces,
    )


def _further_features(settings: Settings, services: Sequence[str], *, embeds: bool) -> Iterator[str]:
    if embeds:
        yield "semantic_search_text"
    if RECALL in services and answers_with_model(settings):
        yield "recall_model"
    if checks_credentials(settings):
        yield "authentication"
    if settings.retention.days:
        yield "retention"


def _limits(settings: Settings, services: Sequence[str]) -> pb.ServerLimits:
    """Return the bounds of the services that are served; the others stay 0."""
    limits = settings.limits
    found = pb.ServerLimits(request_bytes=limits.request_max_bytes)
    if INGEST in services:
        found.content_bytes = limits.content_max_bytes
        found.batch_messages = limits.write_batch_max
    if QUERY in services:
        found.page_size = limits.page_size_max
        found.top_k = limits.top_k_max
        found.user_reads = settings.reads.user_max
        found.caller_reads = settings.reads.caller_max
    if QUERY in services or RECALL in services:
        found.query_chars = limits.query_max_chars
    if RECALL in services:
        found.turns = limits.turns_max
    return found
