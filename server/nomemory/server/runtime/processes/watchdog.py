"""Kills worker processes that hang or take too much memory."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from nomemory.server.runtime.active_faults import MEMORY_LIMIT_EXCEEDED, UNRESPONSIVE, StandingFaults
from nomemory.server.runtime.metrics.process_registry import ProcessRegistry
from nomemory.server.runtime.processes.ipc_connection import PipeConnection
from nomemory.server.runtime.processes.ipc_protocol import Reply
from nomemory.server.runtime.processes.process_stats import ProcessStats, process_stats
from nomemory.server.runtime.settings.serving import ProcessSettings
from nomemory.server.runtime.structured_logs import get_logger

_MISSED_BEATS_MAX: Final = 2
"""Heartbeats that an idle process may miss before there is a fault."""

_log = get_logger("processes")


@dataclass(frozen=True, slots=True)
class WatchPolicy:
    """How processes are watched.

    Attributes:
        memory_max_bytes: the memory limit of a process; 0: none.
        faults: gets the faults of the processes.
        registry: lists the processes.
        heartbeat_s: the interval of heartbeats.
        idle_timeout_s: how long a process may miss heartbeats and do nothing before it is killed and replaced.
        busy_timeout_s: the same for a process that works.
    """

    memory_max_bytes: int = 4 << 30
    faults: StandingFaults = field(default_factory=StandingFaults)
    registry: ProcessRegistry = field(default_factory=ProcessRegistry)
    heartbeat_s: float = 1.0
    idle_timeout_s: float = 5.0
    busy_timeout_s: float = 60.0


def watch_policy(processes: ProcessSettings, faults: StandingFaults, registry: ProcessRegistry) -> WatchPolicy:
    """Return the policy of the processes."""
    return WatchPolicy(
        processes.memory_bytes,
        faults,
        registry,
        processes.heartbeat_s,
        processes.idle_timeout_s,
        processes.busy_timeout_s,
    )


class Watchdog:
    """Watches one process until its connection is closed.

    The owner of the process notices its end by the connection, and replaces it. The fault stands until the replacement
    has answered its first heartbeat.

    Args:
        part: the name of the process in faults.
        process_id: the process.
        pipe: the connection to it.
        kill: kills it.
        policy: how it is watched.
    """

    def __init__(
        self, part: str, process_id: int, pipe: PipeConnection, kill: Callable[[], None], policy: WatchPolicy
    ) -> None:
        self._part = part
        self._process_id = process_id
        self._pipe = pipe
        self._kill = kill
        self._policy = policy
        self._faults = policy.faults
        self._registry = policy.registry
        self._silent_s = self._idle_s = 0.0
        self._last_stats: ProcessStats | None = None

    async def run(self) -> None:
        """Watch the process."""
        name = self._faults.name_of(self._part)
        self._registry.began(name, self._process_id)
        try:
            await self._watch()
        finally:
            self._registry.ended(name, self._process_id)

    async def _watch(self) -> None:
        self._limit_memory()
        beat = self._pipe.beat()
        while self._pipe.is_open:
            done, _ = await asyncio.wait([beat], timeout=self._policy.heartbeat_s)
            if done:
                await asyncio.sleep(self._policy.heartbeat_s)
            stats = await asyncio.to_thread(process_stats, self._process_id)
            if not self._pipe.is_open or not self._is_healthy(stats, beat):
                return
            if beat.done():
                beat = self._pipe.beat()

    def _is_healthy(self, stats: ProcessStats | None, beat: asyncio.Future[Reply | None]) -> bool:
        """Return whether the process may go on; otherwise it has been killed."""
        limit = self._policy.memory_max_bytes
        if stats is not None and 0 < limit < stats.private_bytes:
            return self._end(MEMORY_LIMIT_EXCEEDED, f"it took {stats.private_bytes >> 20} MiB of at most {limit >> 20}")
        if beat.done():
            self._silent_s = self._idle_s = 0.0
            self._faults.clear(self._part)
            return True
        is_working = stats is not None and stats.works_since(self._last_stats)
        self._last_stats = stats
        return self._may_stay_silent(is_working=is_working)

    def _may_stay_silent(self, *, is_working: bool) -> bool:
        # Intervals are counted, not the clock: a stalled server must not kill healthy workers.
        policy = self._policy
        self._silent_s += policy.heartbeat_s
        self._idle_s = 0.0 if is_working else self._idle_s + policy.heartbeat_s
        is_stuck = self._pipe.is_ready and self._silent_s >= policy.busy_timeout_s
        if self._idle_s >= policy.idle_timeout_s or is_stuck:
            return self._end(UNRESPONSIVE, "it answers no heartbeat")
        if self._idle_s >= _MISSED_BEATS_MAX * policy.heartbeat_s:
            self._faults.stand(self._part, UNRESPONSIVE, "it answers no heartbeat", ago_s=self._silent_s)
        return True

    def _end(self, kind: str, detail: str) -> bool:
        self._faults.stand(self._part, kind, detail, ago_s=self._silent_s)
        _log.error("a process is killed", part=self._part, process=self._process_id, kind=kind, detail=detail)
        self._kill()
        return False

    def _limit_memory(self) -> None:
        """Have the system refuse memory beyond the limit, where it can: that is sooner than the next interval."""
        limit = self._policy.memory_max_bytes
        if limit and hasattr(resource, "prlimit"):
            with suppress(OSError, ValueError):  # it may be gone already
                resource.prlimit(self._process_id, resource.RLIMIT_DATA, (limit, limit))
