"""A server that keeps nothing: it recalls over a QueryService elsewhere."""

from __future__ import annotations

from contextlib import AsyncExitStack

from nomemory.server.composition.recall_host import RecallSettingsError, recall_service, remote_query
from nomemory.server.composition.server_info import server_service
from nomemory.server.identity.factory import checks_credentials
from nomemory.server.metrics.meters import Meters
from nomemory.server.rpc.call import Service
from nomemory.server.settings import Settings


def recall_only_services(settings: Settings, stack: AsyncExitStack, meters: Meters) -> list[Service]:
    """Build its service of recall, and what tells of that; the stack takes them down. `meters` count.

    Raises:
        RecallSettingsError: the settings ask for what such a server cannot be, or would open a guarded log.
    """
    if settings.workers.count > 1:
        raise RecallSettingsError("a server that only recalls is one process: start several, each at its own address")
    if settings.recall.query_key is not None and not checks_credentials(settings):
        raise RecallSettingsError(
            "refusing to open a guarded QueryService to anybody on this machine: a recall service that reads with a "
            "key needs credentials of its own callers; docs/authentication.md tells how to give it some"
        )
    stub, metadata = remote_query(settings, stack)
    served: list[Service] = [recall_service(settings, stub, metadata, stack, meters=meters)]
    return [*served, server_service(settings, served, None, None)]
