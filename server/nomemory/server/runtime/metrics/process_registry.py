"""A registry of the server's processes with their restarts and CPU time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class ProcessRecord:
    """The statistics of a named process across its restarts.

    Attributes:
        process_id: the PID of the running process; None if no process is running.
        starts: how often the process has been started.
    """

    process_id: int | None = None
    starts: int = 0
    _cpu_s: float = 0.0
    _earlier_cpu_s: float = 0.0

    def record_start(self, process_id: int) -> None:
        """Record a start. The CPU time of earlier processes with the same name is kept."""
        self.process_id = process_id
        self.starts += 1
        self._earlier_cpu_s += self._cpu_s
        self._cpu_s = 0.0

    def record_cpu_time(self, process_id: int, cpu_s: float) -> None:
        """Record the CPU time, in seconds, that the running process has used so far."""
        if process_id == self.process_id:
            self._cpu_s = max(self._cpu_s, cpu_s)

    @property
    def cpu_s(self) -> float:
        """The total CPU time of the process across restarts, in seconds."""
        return self._earlier_cpu_s + self._cpu_s


class ProcessRegistry:
    """Records the server's processes by name. The registry is not thread-safe."""

    def __init__(self) -> None:
        self.records: dict[str, ProcessRecord] = {}

    def record_start(self, name: str, process_id: int) -> None:
        """Record the start of a process."""
        self.records.setdefault(name, ProcessRecord()).record_start(process_id)

    def record_exit(self, name: str, process_id: int) -> None:
        """Record the exit of a process, unless its replacement is already running."""
        record = self.records[name]
        if record.process_id == process_id:
            record.process_id = None
