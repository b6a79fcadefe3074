"""Kills worker processes that hang or exceed their memory limit."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from nomemory.server.runtime.active_faults import MEMORY_LIMIT_EXCEEDED, UNRESPONSIVE, ActiveFaults
from nomemory.server.runtime.metrics.process_registry import ProcessRegistry
from nomemory.server.runtime.processes.ipc_connection import PipeConnection
from nomemory.server.runtime.processes.ipc_protocol import Reply
from nomemory.server.runtime.processes.process_stats import ProcessStats, read_process_stats
from nomemory.server.runtime.settings.serving import ProcessSettings
from nomemory.server.runtime.structured_logs import get_logger

_MISSED_BEATS_MAX: Final = 2
"""Number of missed heartbeats after which a fault of an idle process is reported."""

_NO_HEARTBEAT: Final = "the process does not reply to heartbeats"

_log = get_logger("processes")


@dataclass(frozen=True, slots=True)
class WatchPolicy:
    """The limits for worker processes, and the objects that record their state.

    Attributes:
        memory_max_bytes: the memory limit of a process, in bytes; 0 disables the limit.
        faults: receives the faults of the processes.
        registry: records the starts and exits of the processes.
        heartbeat_s: the heartbeat interval, in seconds.
        idle_timeout_s: the time, in seconds, after which the watchdog kills a process that misses heartbeats and uses
            no CPU.
        busy_timeout_s: the time, in seconds, after which the watchdog kills a process that misses heartbeats but uses
            the CPU.
    """

    memory_max_bytes: int = 4 << 30
    faults: ActiveFaults = field(default_factory=ActiveFaults)
    registry: ProcessRegistry = field(default_factory=ProcessRegistry)
    heartbeat_s: float = 1.0
    idle_timeout_s: float = 5.0
    busy_timeout_s: float = 60.0


def build_watch_policy(processes: ProcessSettings, faults: ActiveFaults, registry: ProcessRegistry) -> WatchPolicy:
    """Return the watchdog policy that the settings configure."""
    return WatchPolicy(
        processes.memory_bytes,
        faults,
        registry,
        processes.heartbeat_s,
        processes.idle_timeout_s,
        processes.busy_timeout_s,
    )


class Watchdog:
    """Watches one worker process until its connection is closed.

    The watchdog only kills the process. The owner of the process replaces it when the connection closes. The fault of a
    killed process is cleared when its replacement replies to the first heartbeat.

    Args:
        component: the name of the process in faults.
        policy: the limits of the process, and the objects that record its faults, starts and exits.
    """

    def __init__(
        self, component: str, process_id: int, pipe: PipeConnection, kill: Callable[[], None], policy: WatchPolicy
    ) -> None:
        self._component = component
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
        name = self._faults.build_qualified_name(self._component)
        self._registry.record_start(name, self._process_id)
        try:
            await self._watch_process()
        finally:
            self._registry.record_exit(name, self._process_id)

    async def _watch_process(self) -> None:
        self._limit_memory()
        beat = self._pipe.send_heartbeat()
        while self._pipe.is_open:
            done, _ = await asyncio.wait([beat], timeout=self._policy.heartbeat_s)
            if done:
                await asyncio.sleep(self._policy.heartbeat_s)
            stats = await asyncio.to_thread(read_process_stats, self._process_id)
            if not self._pipe.is_open or not self._is_healthy(stats, beat):
                return
            if beat.done():
                beat = self._pipe.send_heartbeat()

    def _is_healthy(self, stats: ProcessStats | None, beat: asyncio.Future[Reply | None]) -> bool:
        """Return whether the process is healthy, and kill a process that is not."""
        limit = self._policy.memory_max_bytes
        if stats is not None and 0 < limit < stats.private_bytes:
            detail = f"memory limit exceeded: {stats.private_bytes >> 20} MiB used, limit {limit >> 20} MiB"
            return self._kill_process(MEMORY_LIMIT_EXCEEDED, detail)
        if beat.done():
            self._silent_s = self._idle_s = 0.0
            self._faults.clear(self._component)
            return True
        is_working = stats is not None and stats.has_worked_since(self._last_stats)
        self._last_stats = stats
        return self._check_silence(is_working=is_working)

    def _check_silence(self, *, is_working: bool) -> bool:
        # Count intervals instead of reading the clock: a stalled server must not kill healthy workers.
        policy = self._policy
        self._silent_s += policy.heartbeat_s
        self._idle_s = 0.0 if is_working else self._idle_s + policy.heartbeat_s
        is_stuck = self._pipe.is_ready and self._silent_s >= policy.busy_timeout_s
        if self._idle_s >= policy.idle_timeout_s or is_stuck:
            return self._kill_process(UNRESPONSIVE, _NO_HEARTBEAT)
        if self._idle_s >= _MISSED_BEATS_MAX * policy.heartbeat_s:
            self._faults.report(self._component, UNRESPONSIVE, _NO_HEARTBEAT, ago_s=self._silent_s)
        return True

    def _kill_process(self, kind: str, detail: str) -> bool:
        self._faults.report(self._component, kind, detail, ago_s=self._silent_s)
        _log.error("killing process", component=self._component, process=self._process_id, kind=kind, detail=detail)
        self._kill()
        return False

    def _limit_memory(self) -> None:
        """Set RLIMIT_DATA of the process, where available, to limit its memory between two checks."""
        limit = self._policy.memory_max_bytes
        if limit and hasattr(resource, "prlimit"):
            with suppress(OSError, ValueError):  # the process may have exited
                resource.prlimit(self._process_id, resource.RLIMIT_DATA, (limit, limit))
