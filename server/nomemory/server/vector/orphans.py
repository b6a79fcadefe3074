"""Removes from a vector index what the log no longer has."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter

from nomemory.server.vector.expected_points import Orphan
from nomemory.server.vector.protocol import VectorIndex

_VERSIONS_MAX = 1000


async def remove_orphans(index: VectorIndex, orphans: Sequence[Orphan]) -> None:
    """Remove the points of versions that are gone.

    Raises:
        Fault: INDEX_UNAVAILABLE if the engine does not answer.
    """
    for user_id, group in groupby(sorted(orphans), key=attrgetter("user_id")):
        sequences = [orphan.sequence for orphan in group]
        for at in range(0, len(sequences), _VERSIONS_MAX):
            await index.remove_versions(user_id, sequences[at : at + _VERSIONS_MAX])
