"""Names, restarts and CPU time of the server's processes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class ProcessRecord:
    """Statistics of a named process across restarts.

    Attributes:
        process_id: the PID of the running process; None if none is running.
        starts: the number of starts.
    """

    process_id: int | None = None
    starts: int = 0
    _cpu_s: float = 0.0
    _earlier_cpu_s: float = 0.0

    def record_start(self, process_id: int) -> None:
        """Record a start. CPU time accumulates across restarts."""
        self.process_id = process_id
        self.starts += 1
        self._earlier_cpu_s += self._cpu_s
        self._cpu_s = 0.0

    def record_cpu_time(self, process_id: int, cpu_s: float) -> None:
        """Record the CPU time that the running process has used so far."""
        if process_id == self.process_id:
            self._cpu_s = max(self._cpu_s, cpu_s)

    @property
    def cpu_s(self) -> float:
        """Total CPU time across restarts, in seconds."""
        return self._earlier_cpu_s + self._cpu_s


class ProcessRegistry:
    """The server's processes by name. Use the registry on the event loop only."""

    def __init__(self) -> None:
        self.records: dict[str, ProcessRecord] = {}

    def record_start(self, name: str, process_id: int) -> None:
        """Record the start of a process."""
        self.records.setdefault(name, ProcessRecord()).record_start(process_id)

    def record_exit(self, name: str, process_id: int) -> None:
        """Record the exit of a process. This has no effect if its replacement is already running."""
        record = self.records[name]
        if record.process_id == process_id:
            record.process_id = None
