"""How many connections a process can have: each is an open file, and the system lets have so many."""

from __future__ import annotations

import resource
from dataclasses import dataclass

from nomemory.server.listen_address import http_address
from nomemory.server.settings import Settings

_OTHERS = 256
"""Open files beside the connections: the log, the indexes, pipes."""


@dataclass(frozen=True, slots=True)
class Affordable:
    """How many connections there can be, by the way that they come in."""

    grpc: int
    http: int


def affordable(settings: Settings) -> Affordable:
    """Return how many connections the settings ask for. Where the system lets have fewer, both ways get their share."""
    grpc, http = settings.connections.connections_max, settings.http.connections_max if http_address(settings) else 0
    there = affordable_connections(grpc + http)
    for_http = there * http // (grpc + http)
    return Affordable(there - for_http, for_http)


def affordable_connections(wanted: int) -> int:
    """Return how many connections there can be, at most as many as wanted. Raises the limit on open files for them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + _OTHERS
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return wanted
    raised = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
    except (OSError, ValueError):  # macOS has a limit of its own below the hard one
        raised = soft
    return max(raised - _OTHERS, 1)
