"""What a server holds at one moment."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evaluation.temporary_server import cpu_ms, process_tree
from proofs.memory import descriptors, rss_mb, threads
from proofs.server_under_test import ServerUnderTest
from proofs.soak.traffic import Waits


@dataclass(frozen=True, slots=True)
class Sample:
    """One look.

    Attributes:
        minute: since the steady load began.
        figures: by name: memory of each kind of process, descriptors, threads, segments, files, latency.
    """

    minute: float
    figures: Mapping[str, float]


class Watch:
    """Looks at a server again and again."""

    def __init__(self, server: ServerUnderTest) -> None:
        self._server = server
        self._cpu_ms = _cpu_ms(server)

    def look(self, minute: float, waits: Waits) -> Sample:
        """Look at the server and at what its callers measured since the last look."""
        figures = _held(self._server) | _latency(waits)
        used = _cpu_ms(self._server)
        if waits.waits_ms and used >= self._cpu_ms:
            figures["CPU per call, ms"] = (used - self._cpu_ms) / len(waits.waits_ms)
        self._cpu_ms = used
        return Sample(round(minute, 2), {name: round(value, 2) for name, value in figures.items()})


def _held(server: ServerUnderTest) -> dict[str, float]:
    processes = server.processes()
    everything = [pid for pids in processes.values() for pid in pids]
    figures = {f"memory of {role}, MB": sum(map(rss_mb, pids)) for role, pids in processes.items()}
    return figures | {
        "memory, MB": sum(figures.values()),
        "descriptors": float(sum(map(descriptors, everything))),
        "threads": float(sum(map(threads, everything))),
        "segments of words": float(_segments(server.data)),
        "files": float(sum(1 for path in server.data.rglob("*") if path.is_file())),
        "data, MB": _size_mb(server.data),
    }


def _latency(waits: Waits) -> dict[str, float]:
    counts = {"calls": float(len(waits.waits_ms)), "errors": float(waits.errors.total())}
    if not waits.waits_ms:
        return counts
    p50, p99 = np.percentile(waits.waits_ms, [50, 99])
    return counts | {"p50, ms": float(p50), "p99, ms": float(p99)}


def _cpu_ms(server: ServerUnderTest) -> float:
    return cpu_ms(process_tree(server.pid)) or 0.0


def _segments(data: Path) -> int:
    """Return how many segments the lexical index has, as its own list of them says."""
    lists = list(data.glob("lexical*/meta.json"))
    return sum(len(json.loads(path.read_text("utf-8"))["segments"]) for path in lists)


def _size_mb(data: Path) -> float:
    size = 0
    for path in data.rglob("*"):
        try:
            size += path.stat().st_blocks * 512
        except FileNotFoundError:  # it has just been removed
            continue
    return size / 1e6
