"""Print the reports of the load benchmark as Markdown."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from load.targets import PerformanceTarget, build_performance_targets

Figures = dict[str, Any]


def print_report(result: Figures) -> None:
    """Print the figures of the benchmark and the performance targets."""
    print(f"\n{result['size']}, {result['machine']}\n")
    _print_cases(result)
    _print_pairs("ingest", result["ingest"])
    _print_pairs("memory (MB)", result["memory"])
    _print_pairs("data (MB)", result["data_mb"])
    _print_pairs("local embedder", result["embedder"])
    if result["errors"]:
        _print_pairs("failed calls", result["errors"])
    print_targets(build_performance_targets(result))


def print_flood(result: Figures) -> None:
    """Print the latencies of list calls and of health checks by the number of flooding callers."""
    idle, floods = result["flood"]["idle"], result["flood"]["floods"]
    print(f"\n{result['size']}, {result['machine']}\n")
    print("| flooding callers | list p50 ms | list p99 ms | health p50 ms | health p99 ms | answered | shed, failed |")
    print("|---|---|---|---|---|---|---|")
    for callers, item in {0: idle, **floods}.items():
        figures = [item[name][figure] for name in ("list", "health") for figure in ("p50_ms", "p99_ms")]
        errors = ", ".join(f"{count:,} {name}" for name, count in item.get("errors", {}).items())
        retry_info = f"; {item['with_retry_info']:,} with RetryInfo" if errors else ""
        waits = " | ".join(f"{figure:.2f}" for figure in figures)
        print(f"| {callers} | {waits} | {sum(item.get('answered', {}).values()):,} | {errors}{retry_info} |")


def print_vector_index_figures(figures: Figures) -> None:
    """Print the figures of the vector index benchmark as tables."""
    for name, pairs in figures.items():
        _print_pairs(name.replace("_", " "), pairs if isinstance(pairs, dict) else {"": pairs})


def _print_cases(result: Figures) -> None:
    engine = result["engine"]
    print(
        "| case | callers | calls/s | p50 ms | p99 ms | server CPU ms | client CPU ms | engine CPU ms | reply bytes |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for name, by_callers in result["cases"].items():
        for callers, item in by_callers.items():
            alone = engine.get(name, {}).get("cpu_ms", "")
            print(
                f"| {name} | {callers} | {item['rps']:,.0f} | {item['p50_ms']:.2f} | {item['p99_ms']:.2f} "
                f"| {item['cpu_ms']:.3f} | {item['client_cpu_ms']:.3f} | {alone} | {item['reply_bytes']:,} |"
            )


def _print_pairs(title: str, pairs: Figures) -> None:
    print(f"\n| {title} | |\n|---|---|")
    for name, value in pairs.items():
        print(f"| {name} | {value} |")


def print_targets(target_list: Iterable[PerformanceTarget]) -> None:
    """Print performance targets with their measured values."""
    print("\n| target | limit | measured | |\n|---|---|---|---|")
    for item in target_list:
        sign = "≥" if item.at_least else "≤"
        mark = "✓" if item.is_met else "✗"
        print(f"| {item.name} | {sign} {item.limit:,g} {item.unit} | {item.figure:,.2f} {item.unit} | {mark} |")
