"""Tests for the report of `bench_load --profile postgres` and its targets."""

from __future__ import annotations

from typing import Any

import pytest
from load.postgres_profile import EMBEDDED, POSTGRES, REPLICAS
from load.postgres_report import build_postgres_targets, print_postgres_report


def figures(cpu_ms: float, database_cpu_ms: float = 0.0) -> dict[str, float]:
    return {"cpu_ms": cpu_ms, "database_cpu_ms": database_cpu_ms, "p50_ms": 1.0, "p99_ms": 2.0, "rps": 1234.0}


@pytest.fixture
def result() -> dict[str, Any]:
    figures_by_engine = {EMBEDDED: figures(0.5), POSTGRES: figures(2.0, 1.5), REPLICAS: figures(1.0, 0.2)}
    ratios = {"cpu": 1.1, "p50": 1.3}
    return {
        "size": {"messages": 20},
        "machine": {},
        "cases": {name: {"16": figures_by_engine} for name in ("list_typical", "lexical_common_heavy", "recall_heavy")},
        "ingest": {name: {"write_per_s": 4000, "import_per_s": 2000} for name in (EMBEDDED, POSTGRES)},
        "growth": {"list_typical": {EMBEDDED: ratios, POSTGRES: ratios}},
    }


def test_report_sums_server_and_database(result: dict[str, Any]) -> None:
    met = {target.name: target.is_met for target in build_postgres_targets(result)}
    assert met == {
        "CPU of server and database, list_typical, 16 caller(s)": False,
        "CPU of server and database, lexical_common_heavy, 16 caller(s)": True,
        "messages acknowledged, write": True,
        "messages acknowledged, import": False,
        "growth of list_typical, cpu, ten times the messages": True,
        "growth of list_typical, p50, ten times the messages": False,
    }


def test_the_report_has_both_profiles_and_both_replicas(
    result: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    print_postgres_report(result)
    printed = capsys.readouterr().out
    assert "| list_typical | 16 | 0.50 | 1.00 | 2.00 | 2.00 | 1.50 | 1.00 | 2.00 | 1,234 | 1,234 | 1,234 |" in printed
    assert "✗" in printed
