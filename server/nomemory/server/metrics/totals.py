"""Adds up what the processes of a server have counted, over their lives."""

from __future__ import annotations

from collections.abc import Collection

from nomemory.server.metrics.samples import Samples


class Totals:
    """Keeps the latest figures of each process, so that no sum goes down when a process is replaced."""

    def __init__(self) -> None:
        self._latest: dict[str, tuple[int, Samples]] = {}
        self._ended = Samples()

    def note(self, process: str, process_id: int, samples: Samples) -> None:
        """Note the figures of a process. Those of its predecessor stay counted."""
        before = self._latest.get(process)
        if before is not None and before[0] != process_id:
            self._ended.add(before[1].counted())
        self._latest[process] = process_id, samples

    def sum(self, heard: Collection[str]) -> Samples:
        """Return everything together. Of processes that were not heard now, only what they had counted."""
        total = Samples()
        total.add(self._ended)
        for process, (_, samples) in self._latest.items():
            total.add(samples if process in heard else samples.counted())
        return total
