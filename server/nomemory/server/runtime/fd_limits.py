"""How many connections fit into the limit on open files (`RLIMIT_NOFILE`)."""

from __future__ import annotations

import resource
from typing import Final

_OTHER_FILES: Final = 256
"""Open files apart from connections: databases, indexes, pipes."""


def max_connections(wanted: int) -> int:
    """Return how many connections there can be, at most as many as wanted. Raises the soft limit for them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + _OTHER_FILES
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return wanted
    raised = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
    except (OSError, ValueError):  # macOS has a limit of its own below the hard one
        raised = soft
    return max(raised - _OTHER_FILES, 1)
