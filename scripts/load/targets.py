"""Performance targets of the embedded profile, defined for the full corpus size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

Figures = dict[str, Any]

_LEXICAL = ("common", "middle", "rare", "two_words", "two_common", "phrase", "filtered")


@dataclass(frozen=True, slots=True)
class PerformanceTarget:
    """A measured figure and its limit; the limit is a maximum, or a minimum if `at_least` is true."""

    name: str
    figure: float
    limit: float
    unit: str
    at_least: bool = False

    @property
    def is_met(self) -> bool:
        """Whether the figure satisfies the limit."""
        return self.figure >= self.limit if self.at_least else self.figure <= self.limit


def build_performance_targets(result: Figures) -> Iterator[PerformanceTarget]:
    """Yield the performance targets whose figures are in a benchmark result."""
    for make in (
        _build_throughput_targets,
        _build_cpu_targets,
        _build_http_targets,
        _build_growth_targets,
        _build_write_targets,
        _build_read_during_write_targets,
        _build_process_targets,
        _build_embedder_targets,
    ):
        yield from make(result)


def _build_throughput_targets(result: Figures) -> Iterator[PerformanceTarget]:
    cases = result["cases"]
    for read in ("list", "neighbors"):
        for reference in ("null", "null_bare"):
            name, null = f"{read}_typical", f"{reference}_{read}_typical"
            if cases.get(name) and cases.get(null, {}).get("16"):
                share = 100 * cases[name]["16"]["rps"] / cases[null]["16"]["rps"]
                yield PerformanceTarget(
                    f"{read}, share of {reference}'s throughput, 16 callers", share, 50, "%", at_least=True
                )


def _build_cpu_targets(result: Figures) -> Iterator[PerformanceTarget]:
    limits = [("list_typical", 0.7), ("list_heavy", 0.7), ("neighbors_typical", 0.8), ("neighbors_heavy", 0.8)]
    limits += [(f"lexical_{words}_typical", 2.0) for words in _LEXICAL]
    limits += [("lexical_common_heavy", 5.0), ("semantic_typical", 2.0), ("semantic_heavy", 20.0)]
    for name, limit in limits:
        for concurrency in ("1", "16"):
            if concurrency in result["cases"].get(name, {}):
                figure = result["cases"][name][concurrency]["cpu_ms"]
                yield PerformanceTarget(f"CPU of {name}, {concurrency} caller(s)", figure, limit, "ms")


def _build_http_targets(result: Figures) -> Iterator[PerformanceTarget]:
    for name in ("list_typical", "list_heavy"):
        for callers, item in result["cases"].get(f"http_{name}", {}).items():
            ratio = item["cpu_ms"] / result["cases"][name][callers]["cpu_ms"]
            yield PerformanceTarget(f"CPU of {name} over HTTP relative to gRPC, {callers} caller(s)", ratio, 2, "×")


def _build_growth_targets(result: Figures) -> Iterator[PerformanceTarget]:
    for name, growth in result.get("growth", {}).items():
        yield PerformanceTarget(f"growth of {name}, p50 at ten times the messages", growth["ratio"], 1.25, "×")


def _build_write_targets(result: Figures) -> Iterator[PerformanceTarget]:
    ingest = result["ingest"]
    rows: list[tuple[str, str, float, str, bool, Callable[[float], float]]] = [
        ("durable_of_plain", "durable writes, share of plain SQLite", 60, "%", True, lambda share: 100 * share),
        ("write_searchable_per_s", "lexically searchable, written", 5000, "/s", True, float),
        ("import_searchable_per_s", "lexically searchable, imported", 5000, "/s", True, float),
        ("single_ack_p50_ms", "single write acknowledged, p50", 3, "ms", False, float),
        ("single_visible_p99_ms", "single write visible, p99", 300, "ms", False, float),
    ]
    for key, name, limit, unit, at_least, scaled in rows:
        if key in ingest:
            yield PerformanceTarget(name, scaled(ingest[key]), limit, unit, at_least)


def _build_read_during_write_targets(result: Figures) -> Iterator[PerformanceTarget]:
    for name, figures in result.get("reads_beside_writes", {}).items():
        if isinstance(figures, dict):
            yield PerformanceTarget(f"{name} during writes, p99 relative to idle", figures["p99_ratio"], 3, "×")
            yield PerformanceTarget(
                f"{name} during writes, longest stall", figures["beside_writes"]["max_ms"], 250, "ms"
            )


def _build_process_targets(result: Figures) -> Iterator[PerformanceTarget]:
    yield PerformanceTarget("memory of the process tree", result["memory_mb"], 1200, "MB")
    yield PerformanceTarget("startup", result["start_s"], 3, "s")


def _build_embedder_targets(result: Figures) -> Iterator[PerformanceTarget]:
    if "embedder" in result:
        busy = 100 * result["embedder"]["busy"]
        yield PerformanceTarget("utilization of the embedder", busy, 90, "%", at_least=True)
        texts, query_ms = (result["embedder"][name] for name in ("texts_per_cpu_s", "query_cpu_ms"))
        yield PerformanceTarget("embedded texts per CPU second", texts, 100, "", at_least=True)
        yield PerformanceTarget("embedding a query, CPU", query_ms, 4, "ms")
