"""The writer's answers to one reader."""

from __future__ import annotations

from nomemory.server.readers.calls import FaultRecord, GetAssignment, WriterCall
from nomemory.server.readers.startup_barrier import StartupBarrier
from nomemory.server.rpc.unexpected_error import fault_of
from nomemory.server.structured_logs import get_logger

_log = get_logger("workers")


class ReaderCalls:
    """Answers the calls of readers. Their pipes are opened with its methods.

    Args:
        barrier: knows what readers serve, and who answers them.
    """

    def __init__(self, barrier: StartupBarrier) -> None:
        self._barrier = barrier

    async def answer(self, request: WriterCall | GetAssignment) -> object:
        """Answer a call.

        Raises:
            Fault: as the services do.
        """
        if isinstance(request, GetAssignment):
            return await self._barrier.assignment()
        return await (await self._barrier.services()).answer(request)

    def describe_error(self, error: BaseException) -> FaultRecord:
        """Return what a reader's caller may see of an error."""
        return FaultRecord.of(fault_of(error, _log))
