"""How many connections the system lets a process have."""

from __future__ import annotations

import resource

_OTHERS = 256
"""Open files beside the connections: the log, the indexes, pipes."""


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
