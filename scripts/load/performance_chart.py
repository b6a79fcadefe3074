"""The figures of `scripts/bench_load` as pictures, for docs/performance.md."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evaluation.charts import BarChart, Row, svg

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
"""What the pictures call the reads, top to bottom."""
_USERS = {"typical": "a typical user", "heavy": "the heavy user"}
_CALLERS = {"1": "one caller", "16": "16 callers"}
_KEPT = ("cpu_ms", "p50_ms", "p99_ms", "rps")
_NOTE = "CPU time per call in milliseconds, over all processes of the server. Lower is better."


def draw(result: Figures, folder: Path) -> None:
    """Write the figures that the pictures show, and the pictures."""
    kept = shown(result)
    (folder / FIGURES).write_text(json.dumps(kept, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    for name, picture in pictures(kept).items():
        (folder / name).write_text(picture, encoding="utf-8")


def shown(result: Figures) -> dict[str, Any]:
    """Return those of the benchmark's figures that stand on the page, in the benchmark's form."""
    known = {f"{read}_{user}" for read in READS for user in _USERS}
    cases = {name: {callers: _of_case(item) for callers, item in by.items()} for name, by in result["cases"].items()}
    return {"cases": {name: by for name, by in cases.items() if name in known}}


def pictures(figures: Figures) -> dict[str, str]:
    """Draw the figures of a benchmark: each picture by the name of its file."""
    return {f"performance-{user}.svg": svg(_chart(figures["cases"], user)) for user in _USERS}


def written(value: float) -> str:
    """Return milliseconds with two decimals, or with one from 10 on."""
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"  # noqa: PLR2004 - three significant digits


def _chart(cases: Figures, user: str) -> BarChart:
    measured = {label: cases[f"{read}_{user}"] for read, label in READS.items() if f"{read}_{user}" in cases}
    rows = tuple(Row(label, tuple(_cpu_ms(case, callers) for callers in _CALLERS)) for label, case in measured.items())
    return BarChart(f"CPU time per read of {_USERS[user]}", _NOTE, tuple(_CALLERS.values()), rows, written)


def _of_case(one: Figures) -> dict[str, float]:
    return {name: one[name] for name in _KEPT if name in one}


def _cpu_ms(case: Figures, callers: str) -> float | None:
    value: float | None = case.get(callers, {}).get("cpu_ms")
    return value
