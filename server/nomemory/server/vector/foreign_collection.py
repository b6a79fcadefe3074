"""A collection on the engine's server that another log fills."""

from __future__ import annotations

from typing import Final

from nomemory.server.faults import Fault, Reason

_SAID: Final = """\
the collection {collection} on the Qdrant server is filled from another message log. Give this server a Qdrant of its \
own (NOMEMORY_QDRANT_URL), or delete the collection there if nothing uses it any more"""


class ForeignCollectionError(Fault):
    """Nothing was read from it, or written to it. A server that finds it when it starts does not start.

    Args:
        collection: its name.
    """

    def __init__(self, collection: str) -> None:
        super().__init__(Reason.ERROR_REASON_INDEX_UNAVAILABLE, _SAID.format(collection=collection))
