"""The figures of `bench_load --profile postgres` as tables for people, in Markdown, and what is aimed at."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from load.postgres_profile import EMBEDDED, POSTGRES, REPLICAS
from load.report import print_targets
from load.targets import Target

Figures = dict[str, Any]

_TYPICAL_MS, _HEAVY_MS, _INGEST, _GROWTH = 3.0, 30.0, 3000, 1.25
_COMMON = ("lexical_common_heavy", "lexical_two_common_heavy", "lexical_common_phrase_heavy", "lexical_question_heavy")


def print_postgres_report(result: Figures) -> None:
    """Print everything."""
    print(f"\n{result['size']}, {result['machine']}\n")
    print(
        "| case | callers | embedded: CPU ms | p50 | p99 | PostgreSQL: server CPU ms | database CPU ms | p50 | p99"
        " | calls/s: embedded | one server | two replicas |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    for name, by_callers in result["cases"].items():
        for callers, places in by_callers.items():
            print(f"| {name} | {callers} | {' | '.join(_columns(places))} |")
    for name, pairs in result["ingest"].items():
        print(f"\n| ingest, {name} | |\n|---|---|")
        print(*(f"| {key} | {value:,} |" for key, value in pairs.items()), sep="\n")
    print("\n| growth, ten times the messages | embedded: CPU | p50 | PostgreSQL: CPU | p50 |\n|---|---|---|---|---|")
    for name, places in result["growth"].items():
        figures = [f"{places[place][kind]:.2f}" for place in (EMBEDDED, POSTGRES) for kind in ("cpu", "p50")]
        print(f"| {name} | {' | '.join(figures)} |")
    print_targets(targets(result))


def targets(result: Figures) -> Iterator[Target]:
    """Return what is aimed at, on the full size; smaller sizes are held against the same figures."""
    for name, by_callers in result["cases"].items():
        kind = name.partition("_typical")[0] if name.endswith("_typical") else ""
        limit = _HEAVY_MS if name in _COMMON else _TYPICAL_MS if kind.startswith(("list", "neigh", "lexical")) else 0
        for callers, places in by_callers.items():
            if limit and places[POSTGRES]:
                figure = places[POSTGRES]["cpu_ms"] + places[POSTGRES]["database_cpu_ms"]
                yield Target(f"CPU of server and database, {name}, {callers} caller(s)", figure, limit, "ms")
    for kind in ("write", "import"):
        figure = result["ingest"][POSTGRES][f"{kind}_per_s"]
        yield Target(f"messages acknowledged, {kind}", figure, _INGEST, "/s", at_least=True)
    for name, places in result["growth"].items():
        for kind in ("cpu", "p50"):
            yield Target(f"growth of {name}, {kind}, ten times the messages", places[POSTGRES][kind], _GROWTH, "×")


def _columns(places: Figures) -> Iterator[str]:
    yield from (f"{places[EMBEDDED].get(key, 0):.2f}" for key in ("cpu_ms", "p50_ms", "p99_ms"))
    yield from (f"{places[POSTGRES].get(key, 0):.2f}" for key in ("cpu_ms", "database_cpu_ms", "p50_ms", "p99_ms"))
    for place in (EMBEDDED, POSTGRES, REPLICAS):
        yield f"{places[place].get('rps', 0):,.0f}" if place in places else ""
