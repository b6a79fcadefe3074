"""Charts in docs/performance.md, rendered from the figures of `scripts/bench_load`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evaluation.charts import BarChart, BarGroup, render_svg

Figures = Mapping[str, Any]

FIGURES = "performance.json"
READS = {
    "null_list": "null call through the interceptor",
    "list": "ListMessages, page of 50",
    "list_window": "ListMessages, 50 in a time range",
    "neighbors": "GetNeighbors, 20 before and after",
    "lexical_common": "one common word",
    "lexical_middle": "one word of medium frequency",
    "lexical_rare": "one rare word",
    "lexical_two_words": "two words, one of them common",
    "lexical_two_common": "two words that most messages contain",
    "lexical_phrase": "phrase",
    "lexical_filtered": "phrase AND word, role, time",
    "lexical_common_highlights": "one common word, 50 highlights",
    "semantic": "SemanticSearch, nearest 20",
    "hybrid": "HybridSearch",
    "recall": "recall with rules",
}
"""Labels of the reads in the charts, top to bottom."""
_USERS = {"typical": "a typical user", "heavy": "the heavy user"}
_CALLERS = {"1": "one caller", "16": "16 callers"}
_KEPT = ("cpu_ms", "p50_ms", "p99_ms", "rps")
_NOTE = "CPU time per call in milliseconds, over all processes of the server. Lower is better."


def write_charts(result: Figures, folder: Path) -> None:
    """Write the charts as SVG files, and their figures as JSON, to a folder."""
    kept = select_published_figures(result)
    (folder / FIGURES).write_text(json.dumps(kept, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    for name, picture in render_charts(kept).items():
        (folder / name).write_text(picture, encoding="utf-8")


def select_published_figures(result: Figures) -> dict[str, Any]:
    """Return the part of the benchmark output that the documentation shows."""
    published = {f"{read}_{user}" for read in READS for user in _USERS}
    cases = {
        name: {callers: _select_published_values(item) for callers, item in by.items()}
        for name, by in result["cases"].items()
    }
    return {"cases": {name: by for name, by in cases.items() if name in published}}


def render_charts(figures: Figures) -> dict[str, str]:
    """Return the SVG charts of the benchmark figures, by file name."""
    return {f"performance-{user}.svg": render_svg(_build_chart(figures["cases"], user)) for user in _USERS}


def format_ms(value: float) -> str:
    """Format milliseconds with one decimal from 10 ms on, otherwise with two."""
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"  # noqa: PLR2004 - three significant digits


def _build_chart(cases: Figures, user: str) -> BarChart:
    measured = {label: cases[f"{read}_{user}"] for read, label in READS.items() if f"{read}_{user}" in cases}
    rows = tuple(
        BarGroup(label, tuple(_get_cpu_ms(case, callers) for callers in _CALLERS)) for label, case in measured.items()
    )
    return BarChart(f"CPU time per read of {_USERS[user]}", _NOTE, tuple(_CALLERS.values()), rows, format_ms)


def _select_published_values(case: Figures) -> dict[str, float]:
    return {name: case[name] for name in _KEPT if name in case}


def _get_cpu_ms(case: Figures, callers: str) -> float | None:
    value: float | None = case.get(callers, {}).get("cpu_ms")
    return value
