"""The parts of a server that its services are built on."""

from __future__ import annotations

from dataclasses import dataclass

from nomemory.server.api.services.index_status import IndexStatusReporter
from nomemory.server.runtime.read_threads import ReadThreads
from nomemory.server.search.lexical.protocol import LexicalIndex
from nomemory.server.search.semantic.active_index import ActiveSpace
from nomemory.server.store.protocol import LogReader, LogWriter


@dataclass(frozen=True, slots=True)
class ServerParts:
    """The message log, the indexes over it, and their status.

    Attributes:
        log: reads the message log.
        writer: writes to it.
        lexical: searches the lexical index.
        spaces: the vector index and embedder that serve.
        report: how far the log and each index are.
        threads: run expensive reads.
    """

    log: LogReader
    writer: LogWriter
    lexical: LexicalIndex
    spaces: ActiveSpace
    report: IndexStatusReporter
    threads: ReadThreads
