"""Sampling of resource use and latency of a server."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evaluation.temporary_server import list_process_tree, measure_cpu_ms
from proofs.memory import count_open_descriptors, count_threads, read_rss_mb
from proofs.server_under_test import ServerUnderTest
from proofs.soak.traffic import CallStatistics


@dataclass(frozen=True, slots=True)
class Sample:
    """Resource use and latency of a server at one time.

    Attributes:
        minute: minutes since the start of the steady load.
        figures: values by name, such as memory per role, descriptors, threads, segments, files and latency.
    """

    minute: float
    figures: Mapping[str, float]


class Sampler:
    """Measures resource use and latency of a server."""

    def __init__(self, server: ServerUnderTest) -> None:
        self._server = server
        self._cpu_ms = _measure_cpu_ms(server)

    def sample(self, minute: float, waits: CallStatistics) -> Sample:
        """Sample the server, with the latencies that callers measured since the last sample."""
        figures = _measure_resources(self._server) | _summarize_latency(waits)
        used = _measure_cpu_ms(self._server)
        if waits.waits_ms and used >= self._cpu_ms:
            figures["CPU per call, ms"] = (used - self._cpu_ms) / len(waits.waits_ms)
        self._cpu_ms = used
        return Sample(round(minute, 2), {name: round(value, 2) for name, value in figures.items()})


def _measure_resources(server: ServerUnderTest) -> dict[str, float]:
    processes = server.find_pids_by_role()
    all_pids = [pid for pids in processes.values() for pid in pids]
    figures = {f"memory of {role}, MB": sum(map(read_rss_mb, pids)) for role, pids in processes.items()}
    return figures | {
        "memory, MB": sum(figures.values()),
        "descriptors": float(sum(map(count_open_descriptors, all_pids))),
        "threads": float(sum(map(count_threads, all_pids))),
        "lexical segments": float(_count_segments(server.data)),
        "files": float(sum(1 for path in server.data.rglob("*") if path.is_file())),
        "data, MB": _measure_directory_size_mb(server.data),
    }


def _summarize_latency(waits: CallStatistics) -> dict[str, float]:
    counts = {"calls": float(len(waits.waits_ms)), "errors": float(waits.errors.total())}
    if not waits.waits_ms:
        return counts
    p50, p99 = np.percentile(waits.waits_ms, [50, 99])
    return counts | {"p50, ms": float(p50), "p99, ms": float(p99)}


def _measure_cpu_ms(server: ServerUnderTest) -> float:
    return measure_cpu_ms(list_process_tree(server.pid)) or 0.0


def _count_segments(data: Path) -> int:
    """Return the number of segments in the metadata of the lexical index."""
    metadata_files = list(data.glob("lexical*/meta.json"))
    return sum(len(json.loads(path.read_text("utf-8"))["segments"]) for path in metadata_files)


def _measure_directory_size_mb(data: Path) -> float:
    size = 0
    for path in data.rglob("*"):
        try:
            size += path.stat().st_blocks * 512
        except FileNotFoundError:  # the file has been removed
            continue
    return size / 1e6
