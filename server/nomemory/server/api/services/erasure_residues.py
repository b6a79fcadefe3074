"""Storage locations that still contain bytes of erased messages, and the times at which they are purged."""

from __future__ import annotations

from typing import Final

from google.protobuf.timestamp_pb2 import Timestamp

from nomemory.server.runtime.settings import Settings
from nomemory.v1 import ingest_service_pb2 as pb

_LOG: Final = (
    "log.db and its write-ahead log contain deleted pages, the deletion record and the user ids until these bytes are "
    "overwritten."
)
_POSTGRES: Final = (
    "PostgreSQL keeps deleted rows in free space of its pages until the space is reused or VACUUM FULL runs, and in "
    "its write-ahead log, archives, standbys and backups. The deletion record and the user id remain until the "
    "indexes of all servers have applied the deletion."
)
_LEXICAL: Final = "Index segments contain deleted messages until the segments are merged."
_EDGE: Final = (
    "Index files contain deleted points until the files are rewritten. Unused collections contain them until the "
    "collections are deleted."
)
_QDRANT: Final = (
    "The Qdrant server keeps deleted points until it optimizes their segments, and in its snapshots. Unused "
    "collections contain them until the collections are deleted there."
)
_BACKLOG: Final = (
    "The backlog contains the user id and the message ids until the vector index has applied the deletion and these "
    "bytes are overwritten."
)
_BLOCKED_LOCATIONS: Final = (pb.STORAGE_LOCATION_MESSAGE_LOG, pb.STORAGE_LOCATION_VECTOR_INDEX)
_BLOCKED: Final = "Vectors cannot be erased now, see `faults` of GetIndexStatus, so there is no purge time. "


def list_erasure_residues(settings: Settings, erase_ts: Timestamp, *, is_blocked: bool) -> list[pb.ErasureResidue]:
    """Return the storage locations that still contain bytes of an erased user's messages.

    A location has a purge time only if this server can purge it.

    `erase_ts` is the time at which the deletion was committed. If `is_blocked` is true, vectors cannot be erased at the
    moment, and the message log keeps the deletion record.
    """
    is_remote = settings.vector.qdrant_url is not None
    purged = {
        pb.STORAGE_LOCATION_MESSAGE_LOG: _LOG,
        pb.STORAGE_LOCATION_LEXICAL_INDEX: _LEXICAL,
        pb.STORAGE_LOCATION_VECTOR_BACKLOG: _BACKLOG,
    } | ({} if is_remote else {pb.STORAGE_LOCATION_VECTOR_INDEX: _EDGE})
    unscheduled = {pb.STORAGE_LOCATION_VECTOR_INDEX: _QDRANT} if is_remote else {}
    if settings.server.database_url is not None:
        del purged[pb.STORAGE_LOCATION_MESSAGE_LOG]
        unscheduled[pb.STORAGE_LOCATION_MESSAGE_LOG] = _POSTGRES
    if is_blocked:
        unscheduled |= {
            location: _BLOCKED + purged.pop(location) for location in _BLOCKED_LOCATIONS if location in purged
        }
    purge_ts = Timestamp()
    purge_ts.FromNanoseconds(erase_ts.ToNanoseconds() + round(settings.erasure.within_s * 1e9))
    return [
        *(
            pb.ErasureResidue(location=location, detail=detail, purge_ts=purge_ts)
            for location, detail in purged.items()
        ),
        *(pb.ErasureResidue(location=location, detail=detail) for location, detail in unscheduled.items()),
    ]
