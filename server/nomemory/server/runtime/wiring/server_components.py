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
    """The message log, the indexes over it, and their status.

    Attributes:
        log: the reader of the message log.
        writer: the writer of the message log.
        lexical: the lexical index.
        spaces: the active vector index with its embedder.
        report: the status of the log and the indexes.
        faults: the active faults of the server.
        threads: the thread pool for expensive reads.
    """

    log: LogReader
    writer: LogWriter
    lexical: LexicalIndex
    spaces: ActiveSpace
    report: IndexStatusReporter
    faults: ActiveFaults
    threads: ReadThreads
