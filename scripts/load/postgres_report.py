"""Print the report of `bench_load --profile postgres` as Markdown, with performance targets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from load.postgres_profile import EMBEDDED, POSTGRES, REPLICAS
from load.report import print_targets
from load.targets import PerformanceTarget

Figures = dict[str, Any]

_TYPICAL_MS, _HEAVY_MS, _INGEST, _GROWTH = 3.0, 30.0, 3000, 1.25
_COMMON = ("lexical_common_heavy", "lexical_two_common_heavy", "lexical_common_phrase_heavy", "lexical_question_heavy")


def print_postgres_report(result: Figures) -> None:
    """Print the tables of a comparison with PostgreSQL as Markdown."""
    print(f"\n{result['size']}, {result['machine']}\n")
    print(
        "| case | callers | embedded: CPU ms | p50 | p99 | PostgreSQL: server CPU ms | database CPU ms | p50 | p99"
        " | calls/s: embedded | one server | two replicas |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    for name, by_callers in result["cases"].items():
        for callers, by_deployment in by_callers.items():
            print(f"| {name} | {callers} | {' | '.join(_render_columns(by_deployment))} |")
    for name, pairs in result["ingest"].items():
        print(f"\n| ingest, {name} | |\n|---|---|")
        print(*(f"| {key} | {value:,} |" for key, value in pairs.items()), sep="\n")
    print("\n| growth, ten times the messages | embedded: CPU | p50 | PostgreSQL: CPU | p50 |\n|---|---|---|---|---|")
    for name, by_deployment in result["growth"].items():
        figures = [
            f"{by_deployment[deployment][kind]:.2f}" for deployment in (EMBEDDED, POSTGRES) for kind in ("cpu", "p50")
        ]
        print(f"| {name} | {' | '.join(figures)} |")
    print_targets(build_postgres_targets(result))


def build_postgres_targets(result: Figures) -> Iterator[PerformanceTarget]:
    """Yield the performance targets of the PostgreSQL profile with the measured figures.

    The limits are defined for the full corpus size.
    """
    for name, by_callers in result["cases"].items():
        kind = name.partition("_typical")[0] if name.endswith("_typical") else ""
        limit = _HEAVY_MS if name in _COMMON else _TYPICAL_MS if kind.startswith(("list", "neigh", "lexical")) else 0
        for callers, by_deployment in by_callers.items():
            if limit and by_deployment[POSTGRES]:
                figure = by_deployment[POSTGRES]["cpu_ms"] + by_deployment[POSTGRES]["database_cpu_ms"]
                yield PerformanceTarget(f"CPU of server and database, {name}, {callers} caller(s)", figure, limit, "ms")
    for kind in ("write", "import"):
        figure = result["ingest"][POSTGRES][f"{kind}_per_s"]
        yield PerformanceTarget(f"messages acknowledged, {kind}", figure, _INGEST, "/s", at_least=True)
    for name, by_deployment in result["growth"].items():
        for kind in ("cpu", "p50"):
            yield PerformanceTarget(
                f"growth of {name}, {kind}, ten times the messages", by_deployment[POSTGRES][kind], _GROWTH, "×"
            )


def _render_columns(by_deployment: Figures) -> Iterator[str]:
    yield from (f"{by_deployment[EMBEDDED].get(key, 0):.2f}" for key in ("cpu_ms", "p50_ms", "p99_ms"))
    yield from (
        f"{by_deployment[POSTGRES].get(key, 0):.2f}" for key in ("cpu_ms", "database_cpu_ms", "p50_ms", "p99_ms")
    )
    for deployment in (EMBEDDED, POSTGRES, REPLICAS):
        yield f"{by_deployment[deployment].get('rps', 0):,.0f}" if deployment in by_deployment else ""
