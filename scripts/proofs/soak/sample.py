"""What a server holds at one moment."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from proofs.memory import descriptors, rss_mb, threads
from proofs.soak.traffic import Waits
from proofs.subject import Subject


@dataclass(frozen=True, slots=True)
class Sample:
    """One look.

    Attributes:
        minute: since the steady load began.
        figures: by name: memory of each kind of process, descriptors, threads, segments, files, latency.
    """

    minute: float
    figures: Mapping[str, float]


def sample(subject: Subject, minute: float, waits: Waits) -> Sample:
    """Look at a server and at what its callers measured since the last look."""
    processes = subject.processes()
    everything = [pid for pids in processes.values() for pid in pids]
    figures = {f"memory of {role}, MB": sum(map(rss_mb, pids)) for role, pids in processes.items()}
    figures["memory, MB"] = sum(figures.values())
    figures["descriptors"] = float(sum(map(descriptors, everything)))
    figures["threads"] = float(sum(map(threads, everything)))
    figures["segments of words"] = float(_segments(subject.data))
    figures["files"] = float(sum(1 for path in subject.data.rglob("*") if path.is_file()))
    figures["data, MB"] = _size_mb(subject.data)
    if waits.waits_ms:
        p50, p99 = np.percentile(waits.waits_ms, [50, 99])
        figures |= {"p50, ms": float(p50), "p99, ms": float(p99)}
    figures["calls"] = float(len(waits.waits_ms))
    figures["errors"] = float(waits.errors.total())
    return Sample(round(minute, 2), {name: round(value, 2) for name, value in figures.items()})


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
