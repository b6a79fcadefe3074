"""The processes that a server has started: what each is, how often it was started, what CPU time it has used."""

from __future__ import annotations

from dataclasses import dataclass


def role_of(process: str) -> str:
    """Return what a process is without its number: `reader-2` is a `reader`."""
    return process.rstrip("0123456789").removesuffix("-")


@dataclass(slots=True)
class Entry:
    """A process by its name, over all the times that it was started.

    Attributes:
        process_id: of the one that runs; None while none does.
        starts: how often it was started.
    """

    process_id: int | None = None
    starts: int = 0
    _cpu_s: float = 0.0
    _before_s: float = 0.0

    def began(self, process_id: int) -> None:
        """Note that it was started. What its predecessor has used stays counted."""
        self.process_id = process_id
        self.starts += 1
        self._before_s += self._cpu_s
        self._cpu_s = 0.0

    def used(self, process_id: int, cpu_s: float) -> None:
        """Note what the running process has used."""
        if process_id == self.process_id:
            self._cpu_s = max(self._cpu_s, cpu_s)

    @property
    def cpu_s(self) -> float:
        """CPU time of all of them, as far as anybody has looked."""
        return self._before_s + self._cpu_s


class Roster:
    """Knows the processes by their names. Belongs to the event loop."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}

    def began(self, process: str, process_id: int) -> None:
        """Note that a process was started."""
        self.entries.setdefault(process, Entry()).began(process_id)

    def ended(self, process: str, process_id: int) -> None:
        """Note that it is gone. Its successor may be there already."""
        entry = self.entries[process]
        if entry.process_id == process_id:
            entry.process_id = None
