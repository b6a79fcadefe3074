"""Starts the readers of a server, keeps them going, answers them, and drains them."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from nomemory.server.api.errors import as_fault
from nomemory.server.faults import Fault
from nomemory.server.metrics.meters import Roster
from nomemory.server.metrics.samples import Samples
from nomemory.server.processes.child_process import wait_ended
from nomemory.server.processes.connection import CallFailedError, PipeClosedError, PipeConnection
from nomemory.server.processes.launch import Launch, Started
from nomemory.server.processes.supervisor import Supervisor
from nomemory.server.processes.watch import Watch, WatchPolicy
from nomemory.server.readers.calls import Ask, Assignment, GetAssignment, GetSamples, SpaceDescription
from nomemory.server.readers.writer_services import WriterServices
from nomemory.server.settings import Settings
from nomemory.server.standing_faults import StandingFaults
from nomemory.server.structured_logs import get_logger
from nomemory.spans.span import CallTracer

_log = get_logger("workers")


class ReaderCalls:
    """Answers the calls of readers, once the writer has everything that they open."""

    def __init__(self) -> None:
        self._opened: asyncio.Future[tuple[Assignment, WriterServices]] = asyncio.get_running_loop().create_future()

    def open(self, assignment: Assignment, services: WriterServices) -> None:
        """Let the readers go on: give them their assignment, and the services that answer them."""
        self._opened.set_result((assignment, services))

    def reassign(self, space: SpaceDescription) -> None:
        """Let readers that come later serve from another vector space."""
        if self._opened.done():
            assignment, services = self._opened.result()
            self._opened = asyncio.get_running_loop().create_future()
            self._opened.set_result((replace(assignment, space=space), services))

    async def answer(self, request: Ask | GetAssignment) -> object:
        """Answer a call.

        Raises:
            Fault: as the services do.
        """
        assignment, services = await asyncio.shield(self._opened)
        return assignment if isinstance(request, GetAssignment) else await services.answer(request)

    def describe_error(self, error: BaseException) -> Fault:
        """Return what a reader's caller may see of an error."""
        return as_fault(error, _log)


_MODULE = "nomemory.server.composition.reader"


def start_reader(number: int) -> Started:
    """Start the reader of that number. It waits for its assignment, and ends when the pipe is closed.

    Raises:
        WorkerUnavailableError: the system refuses.
    """
    return Launch(_MODULE, (str(number),), logs=True).start()


def start_readers(settings: Settings) -> Mapping[int, Started]:
    """Start all the readers that the settings ask for; return them by their numbers.

    Raises:
        WorkerUnavailableError: the system refuses.
    """
    return {number: start_reader(number) for number in reader_numbers(settings)}


def reader_numbers(settings: Settings) -> range:
    """Return the numbers of the readers; the writer has 0. A server that only recalls is one process."""
    return range(1, 1 if settings.recall.query_target else settings.workers.count)


def reader_name(number: int) -> str:
    """Return what a reader is called in faults and metrics."""
    return f"reader-{number}"


_ENDING_S = 5.0
"""What a reader may take to end, beyond the draining of its calls."""


_MEMORY_SLACK = 2
"""A reader to which the system refuses memory fails call after call; one that has too much is replaced before that."""


@dataclass(frozen=True, slots=True)
class Heard:
    """What a reader says that it has counted. `samples` is None where it did not say."""

    process: str
    process_id: int
    samples: Samples | None


class ReaderLostError(Exception):
    """A reader ended by itself."""


class Readers:
    """Starts the processes that serve beside this one, and starts them again when they die.

    Args:
        settings: how many, and how long they may take to start and to drain.
        started: those that have been started already, by their numbers.
        faults: where it is noted that one does not answer, or takes too much memory.
        roster: lists them.
        tracer: begins the spans of what they ask for; None: there are no traces.
    """

    def __init__(
        self,
        settings: Settings,
        started: Mapping[int, Started],
        faults: StandingFaults,
        roster: Roster,
        tracer: CallTracer | None = None,
    ) -> None:
        self._tracer = tracer
        watched = settings.processes.model_copy(update={"memory_bytes": settings.workers.memory_bytes})
        self._policy = WatchPolicy(watched, faults, roster, _MEMORY_SLACK)
        self._numbers = reader_numbers(settings)
        self._started = dict(started)
        self._start_s = settings.workers.start_s
        self._grace_s = settings.timing.drain_s + _ENDING_S
        self._calls = ReaderCalls()
        self._serving: set[int] = set()
        self._all_serving = asyncio.Event()
        self._supervisor = Supervisor()
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._pipes: dict[int, PipeConnection] = {}
        self._jobs: list[asyncio.Task[None]] = []
        self._is_draining = False

    async def start(self) -> None:
        """Start the processes. They load while this one goes on, and wait for `assign`."""
        for number in self._numbers:
            self._jobs.append(self._supervisor.start_task(f"worker-{number}", partial(self._run, number)))
        await asyncio.sleep(0)  # lets each job get as far as having a process

    def assign(self, assignment: Assignment, services: WriterServices) -> None:
        """Let the readers serve, answered by these services."""
        self._calls.open(assignment, services)

    async def replace_space(self, space: SpaceDescription) -> None:
        """Have all readers answer from another vector space; return when none of their reads uses the former one."""
        self._calls.reassign(space)
        await asyncio.gather(*(self._have_replaced(number, pipe, space) for number, pipe in self._pipes.items()))

    async def samples(self, longest_s: float) -> list[Heard]:
        """Ask all readers what they have counted. Those that do not serve yet are not asked."""
        asked = [self._heard(number, pipe, longest_s) for number, pipe in self._pipes.items() if pipe.is_ready]
        return await asyncio.gather(*asked)

    async def all_serve(self) -> None:
        """Wait until all readers serve, for a limited time. Late ones join when they can."""
        if not self._numbers:
            return
        try:
            async with asyncio.timeout(self._start_s):
                await self._all_serving.wait()
        except TimeoutError:
            _log.warning("not all workers serve yet")

    def drain(self) -> None:
        """Have the readers refuse new calls and finish those in flight. None is started again."""
        self._is_draining = True
        self._supervisor.stop()
        for process in self._processes.values():
            process.terminate()

    async def close(self) -> None:
        """Drain, and return when all readers are gone; what takes too long is killed."""
        self.drain()
        if not self._jobs:
            return
        _, late = await asyncio.wait(self._jobs, timeout=self._grace_s)
        for process in self._processes.values():
            process.kill()
        if late:
            await asyncio.wait(late)

    async def _run(self, number: int) -> None:
        """Start a reader and answer it until it is gone."""
        process, ours = self._started.pop(number) if number in self._started else start_reader(number)
        self._processes[number] = process
        pipe = await PipeConnection(self._calls.answer, self._calls.describe_error, self._tracer).over(ours)
        self._pipes[number] = pipe
        watching = asyncio.create_task(Watch(reader_name(number), process.pid, pipe, process.kill, self._policy).run())
        try:
            await self._answer(number, pipe)
        finally:
            watching.cancel()
            del self._pipes[number]
        exit_code = await wait_ended(process, self._grace_s)
        del self._processes[number]
        if not self._is_draining:
            _log.error("a worker has died and is started again", died=number, exit_code=exit_code)
            raise ReaderLostError

    async def _heard(self, number: int, pipe: PipeConnection, longest_s: float) -> Heard:
        process_id = self._processes[number].pid
        try:
            async with asyncio.timeout(longest_s):
                return Heard(reader_name(number), process_id, await pipe.call(GetSamples()))
        except (TimeoutError, PipeClosedError, CallFailedError):
            return Heard(reader_name(number), process_id, None)

    async def _have_replaced(self, number: int, pipe: PipeConnection, space: SpaceDescription) -> None:
        """Have a reader follow. One that cannot is replaced: its successor gets the assignment of now."""
        try:
            await pipe.call(space)
        except PipeClosedError:
            return
        except CallFailedError as error:
            _log.error("a worker cannot follow a change of the model, and is ended", worker=number, cause=error.error)
            self._processes[number].kill()

    async def _answer(self, number: int, pipe: PipeConnection) -> None:
        """Answer a reader until it is gone. Its open calls are then cancelled."""
        with suppress(PipeClosedError):
            await pipe.wait_ready()
            self._serving.add(number)
            if len(self._serving) == len(self._numbers):
                self._all_serving.set()
            await pipe.wait_closed()
