"""Watches the other processes of a server: their heartbeats, and their memory."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from nomemory.server.metrics.meters import Roster
from nomemory.server.processes.connection import PipeConnection
from nomemory.server.processes.frames import Reply
from nomemory.server.processes.vitals import Vitals, vitals
from nomemory.server.settings.serving import ProcessSettings
from nomemory.server.standing_faults import MEMORY_EXCEEDED, NOT_ANSWERING, StandingFaults
from nomemory.server.structured_logs import get_logger

_log = get_logger("processes")
_SAID_AFTER = 2
"""Heartbeats that an idle process may miss before it is called a fault."""


@dataclass(frozen=True, slots=True)
class WatchPolicy:
    """What a process is watched with.

    Attributes:
        processes: how closely it is watched, and the most memory that it may take.
        faults: where its faults are noted.
        roster: where it is listed.
        memory_slack: how many times as much the system lets it have, before it refuses more. With some, a process that
            would fail over a refusal without ending is seen to have too much, and replaced.
    """

    processes: ProcessSettings = field(default_factory=ProcessSettings)
    faults: StandingFaults = field(default_factory=StandingFaults)
    roster: Roster = field(default_factory=Roster)
    memory_slack: int = 1


class Watch:
    """Watches one process until its pipe is closed. It kills one that does not answer, or takes too much memory.

    Whoever started the process notices its end by the pipe, and replaces it. The fault stands until the replacement has
    answered its first heartbeat.

    Args:
        part: what the process is called in faults.
        process_id: the process.
        pipe: this end of the pipe to it.
        kill: ends it.
        policy: how closely, and where faults are noted.
    """

    def __init__(
        self, part: str, process_id: int, pipe: PipeConnection, kill: Callable[[], None], policy: WatchPolicy
    ) -> None:
        self._part = part
        self._process_id = process_id
        self._pipe = pipe
        self._kill = kill
        self._processes = policy.processes
        self._memory_slack = policy.memory_slack
        self._faults = policy.faults
        self._roster = policy.roster
        self._silent_s = self._idle_s = 0.0
        self._seen: Vitals | None = None

    async def run(self) -> None:
        """Watch."""
        name = self._faults.name_of(self._part)
        self._roster.began(name, self._process_id)
        try:
            await self._watch()
        finally:
            self._roster.ended(name, self._process_id)

    async def _watch(self) -> None:
        self._bound_memory()
        beat = self._pipe.beat()
        while self._pipe.is_open:
            done, _ = await asyncio.wait([beat], timeout=self._processes.heartbeat_s)
            if done:
                await asyncio.sleep(self._processes.heartbeat_s)
            if not self._pipe.is_open or not self._is_well(await asyncio.to_thread(vitals, self._process_id), beat):
                return
            if beat.done():
                beat = self._pipe.beat()

    def _is_well(self, seen: Vitals | None, beat: asyncio.Future[Reply | None]) -> bool:
        """Take note of a look at the process; False if it had to be killed."""
        most = self._processes.memory_bytes
        if seen is not None and 0 < most < seen.private_bytes:
            return self._end(MEMORY_EXCEEDED, f"it took {seen.private_bytes >> 20} MiB of at most {most >> 20}")
        if beat.done():
            self._silent_s = self._idle_s = 0.0
            self._faults.clear(self._part)
            return True
        return self._may_stay_silent(is_working=seen is not None and seen.works_since(self._seen), seen=seen)

    def _may_stay_silent(self, *, is_working: bool, seen: Vitals | None) -> bool:
        # Its own steps are counted, not the clock: when this process, too, was held up, nobody is to blame.
        processes, self._seen = self._processes, seen
        self._silent_s += processes.heartbeat_s
        self._idle_s = 0.0 if is_working else self._idle_s + processes.heartbeat_s
        is_stuck = self._pipe.is_ready and self._silent_s >= processes.busy_patience_s
        if self._idle_s >= processes.patience_s or is_stuck:
            return self._end(NOT_ANSWERING, "it answers no heartbeat")
        if self._idle_s >= _SAID_AFTER * processes.heartbeat_s:
            self._faults.stand(self._part, NOT_ANSWERING, "it answers no heartbeat", ago_s=self._silent_s)
        return True

    def _end(self, kind: str, detail: str) -> bool:
        self._faults.stand(self._part, kind, detail, ago_s=self._silent_s)
        _log.error("a process is killed", part=self._part, process=self._process_id, kind=kind, detail=detail)
        self._kill()
        return False

    def _bound_memory(self) -> None:
        """Have the system refuse what is beyond the bound, where it can: that is sooner than the next look."""
        most = self._processes.memory_bytes * self._memory_slack
        if most and hasattr(resource, "prlimit"):
            with suppress(OSError, ValueError):  # it may be gone already
                resource.prlimit(self._process_id, resource.RLIMIT_DATA, (most, most))
