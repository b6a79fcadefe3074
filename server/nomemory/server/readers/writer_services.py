"""The parts that only the writer's process has, and its answers to readers."""

from __future__ import annotations

from dataclasses import dataclass
from inspect import isawaitable

from nomemory.server.log.protocol import LogWriter
from nomemory.server.metrics.text import Exposition
from nomemory.server.readers.calls import Ask
from nomemory.server.rpc.index_status import Report
from nomemory.server.vector.active_index import ServingSpace


@dataclass(frozen=True, slots=True)
class WriterServices:
    """The parts that a server has once. A reader has remote ones (`remote.py`), which call the writer's process."""

    log: LogWriter
    spaces: ServingSpace
    report: Report
    exposition: Exposition | None = None

    async def answer(self, ask: Ask) -> object:
        """Answer a reader.

        Raises:
            Fault: as each of the parts.
        """
        part = getattr(self.spaces.named(ask.space) if ask.space else self, ask.part)
        answer = getattr(part, ask.method)(*ask.arguments, **ask.named)
        return await answer if isawaitable(answer) else answer
