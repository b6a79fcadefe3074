"""The processes of a server: their names, restarts and CPU time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class ProcessRecord:
    """A process of one name, over all its restarts.

    Attributes:
        process_id: of the running process; None while none runs.
        starts: how often it was started.
    """

    process_id: int | None = None
    starts: int = 0
    _cpu_s: float = 0.0
    _earlier_cpu_s: float = 0.0

    def record_start(self, process_id: int) -> None:
        """Record a start. The CPU time of earlier processes stays counted."""
        self.process_id = process_id
        self.starts += 1
        self._earlier_cpu_s += self._cpu_s
        self._cpu_s = 0.0

    def record_cpu_time(self, process_id: int, cpu_s: float) -> None:
        """Record the CPU time of the running process so far."""
        if process_id == self.process_id:
            self._cpu_s = max(self._cpu_s, cpu_s)

    @property
    def cpu_s(self) -> float:
        """CPU time over all restarts, as of the latest `used` of each."""
        return self._earlier_cpu_s + self._cpu_s


class ProcessRegistry:
    """The processes of a server by their names. Belongs to the event loop."""

    def __init__(self) -> None:
        self.records: dict[str, ProcessRecord] = {}

    def record_start(self, name: str, process_id: int) -> None:
        """Record that a process was started."""
        self.records.setdefault(name, ProcessRecord()).record_start(process_id)

    def record_exit(self, name: str, process_id: int) -> None:
        """Record that a process has ended, unless its successor already runs."""
        record = self.records[name]
        if record.process_id == process_id:
            record.process_id = None
