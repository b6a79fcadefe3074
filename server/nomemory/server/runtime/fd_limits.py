"""The maximum number of connections under the limit on open files (`RLIMIT_NOFILE`)."""

from __future__ import annotations

import resource
from typing import Final

_OTHER_FILES: Final = 256
"""File descriptors reserved for databases, indexes and pipes."""


def compute_max_connections(requested: int) -> int:
    """Return the number of connections that the limit on open files allows, at most `requested`.

    The function raises the soft limit if necessary.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = requested + _OTHER_FILES
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return requested
    raised = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
    except (OSError, ValueError):  # macOS has an undocumented limit below the hard limit
        raised = soft
    return max(raised - _OTHER_FILES, 1)
