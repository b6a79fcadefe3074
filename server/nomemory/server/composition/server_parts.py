"""The parts of a server that its services are built on."""

from __future__ import annotations

from dataclasses import dataclass

from nomemory.server.admission.read_threads import ReadThreads
from nomemory.server.lexical.protocol import LexicalIndex
from nomemory.server.log.protocol import LogReader, LogWriter
from nomemory.server.rpc.index_status import Report
from nomemory.server.vector.active_index import ServingSpace


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
    spaces: ServingSpace
    report: Report
    threads: ReadThreads
