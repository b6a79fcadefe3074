"""The places that still hold bytes of a user after an erasure, for its receipt."""

from __future__ import annotations

from nomemory.server.settings import Settings
from nomemory.v1 import ingest_service_pb2 as pb

_LOG = (
    "Deleted pages of log.db stay until they are written over or the file is compacted, and its write-ahead log until "
    "a checkpoint has copied it and later writes go over it. The ids of the user and of the messages stay in the "
    "record of deletions for as long as the log."
)
_LEXICAL = "Segments of the index stay until they are merged, or its directory is deleted and the index is built anew."
_EDGE = (
    "Segments of the index stay until they are optimised; the collection of a model that is no longer used, until its "
    "directory is deleted. Deleting the directory vectors removes all; the index is built anew."
)
_QDRANT = "The Qdrant server keeps deleted points until it optimises their segments, and in its snapshots."
_BACKLOG = (
    "The ids of the user and of the messages stay until the vector index has applied the deletions, and in free pages "
    "until they are written over."
)
_CACHE = "Vectors of the texts stay, by a digest of each text and without a user, until the file is deleted."


def residues(settings: Settings) -> list[pb.ErasureResidue]:
    """Return the places. None of them has a time by which the bytes are gone: each depends on later writes."""
    remote = settings.vector.qdrant_url is not None
    places = {"log": _LOG, "lexical": _LEXICAL, "vector": _QDRANT if remote else _EDGE, "backlog": _BACKLOG}
    if settings.embedder.cache is not None:
        places["embedding_cache"] = _CACHE
    return [pb.ErasureResidue(place=place, until=until) for place, until in places.items()]
