"""The components that the services depend on."""

from __future__ import annotations

from dataclasses import dataclass

from nomemory.server.api.services.index_status import IndexStatusReporter
from nomemory.server.runtime.active_faults import ActiveFaults
from nomemory.server.runtime.read_threads import ReadThreads
from nomemory.server.search.lexical.protocol import LexicalIndex
from nomemory.server.search.semantic.active_index import ActiveSpace
from nomemory.server.store.protocol import LogReader, LogWriter


@dataclass(frozen=True, slots=True)
class ServerComponents:
    """The message log and its indexes, with the components that report their status.

    Attributes:
        spaces: the vector index that serves searches, with its embedder.
        report: reports the status of the message log and the indexes.
        faults: the active faults of the server's components.
        threads: the thread pool for expensive reads.
    """

    log: LogReader
    writer: LogWriter
    lexical: LexicalIndex
    spaces: ActiveSpace
    report: IndexStatusReporter
    faults: ActiveFaults
    threads: ReadThreads
