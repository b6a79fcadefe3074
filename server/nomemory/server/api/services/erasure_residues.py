"""The places that still hold bytes of erased messages, and until when."""

from __future__ import annotations

from google.protobuf.timestamp_pb2 import Timestamp

from nomemory.server.runtime.settings import Settings
from nomemory.v1 import ingest_service_pb2 as pb

_LOG = (
    "Pages of log.db and its write-ahead log, the record of deletions, and the ids of the user: until they are wiped."
)


_POSTGRES = (
    "The database keeps what was deleted in the free room of its pages until other rows take it, or VACUUM FULL is "
    "run. Its write-ahead log, archives, standbys and backups keep it, too. The record of deletions, and the ids of "
    "the user: until the indexes of every server have the deletions."
)


_LEXICAL = "Segments of the index: until the messages that live in them are moved out of them."


_EDGE = "Files of the index: until what lives is copied into new ones. Collections not in use: until they are deleted."


_QDRANT = (
    "The Qdrant server keeps deleted points until it optimises their segments, and in its snapshots. Points of a "
    "collection that is not in use stay until that is deleted there."
)


_BACKLOG = "The ids of the user and of the messages: until the vector index has the deletions and they are wiped."


_WAITING = ("log", "vector")


_WAITS = "Erasing vectors waits now (`faults` of GetIndexStatus says for what), so that no time can be promised. "


def residues(settings: Settings, erase_ts: Timestamp, *, waits: bool) -> list[pb.ErasureResidue]:
    """Return the places, and by when they hold nothing any more, where that is in this server's hands.

    Args:
        settings: say which files there are, and how long it may take.
        erase_ts: when the deletion was committed.
        waits: whether vectors cannot be erased now. The log keeps its record of deletions until they can.
    """
    remote = settings.vector.qdrant_url is not None
    wiped = {"log": _LOG, "lexical": _LEXICAL, "backlog": _BACKLOG} | ({} if remote else {"vector": _EDGE})
    others = {"vector": _QDRANT} if remote else {}
    if settings.server.database_url is not None:
        del wiped["log"]
        others["log"] = _POSTGRES
    if waits:
        others |= {place: _WAITS + wiped.pop(place) for place in _WAITING if place in wiped}
    expire_ts = Timestamp()
    expire_ts.FromNanoseconds(erase_ts.ToNanoseconds() + round(settings.erasure.within_s * 1e9))
    return [
        *(pb.ErasureResidue(place=place, until=until, expire_ts=expire_ts) for place, until in wiped.items()),
        *(pb.ErasureResidue(place=place, until=until) for place, until in others.items()),
    ]
