"""The figures of `scripts/bench_recall` as a picture, for docs/quality.md."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from nomemory.evaluation.bar_chart import SERIES_MAX, BarChart, Row, svg
from nomemory.evaluation.methods import NAMES

FIGURES: Final = "quality.json"
PICTURE: Final = "quality.svg"
_METRIC: Final = "recall@6"
_KEPT: Final = (_METRIC, "recall@10", "hit@1")
_NOTE: Final = "Share of the evidence among the first six messages. Longer is better."

Sets = Mapping[str, Mapping[str, Any]]
"""What was measured of each method, by set."""


def draw(sets: Sets, folder: Path) -> None:
    """Write the figures that the picture shows, and the picture."""
    kept = shown(sets)
    (folder / FIGURES).write_text(json.dumps(kept, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    (folder / PICTURE).write_text(picture(kept), encoding="utf-8")


def shown(sets: Sets) -> dict[str, Any]:
    """Return those of the benchmark's figures that stand on the page, in the benchmark's form."""
    return {"sets": {name: {method: _of_all(one) for method, one in found.items()} for name, found in sets.items()}}


def picture(figures: Mapping[str, Any]) -> str:
    """Draw the figures of a benchmark; of more than four sets the first four."""
    sets = dict(list(figures["sets"].items())[:SERIES_MAX])
    methods = [method for method in NAMES if any(method in found for found in sets.values())]
    rows = tuple(Row(method, tuple(_value(found, method) for found in sets.values())) for method in methods)
    return svg(BarChart("How much of the evidence comes back", _NOTE, tuple(sets), rows, written))


def written(value: float) -> str:
    """Write a share as the page does."""
    return f"{value:.3f}".removeprefix("0")


def _of_all(one: Mapping[str, Any]) -> dict[str, Any]:
    figures = one["all"]
    return {"all": {name: figures[name] for name in _KEPT if name in figures}}


def _value(found: Mapping[str, Any], method: str) -> float | None:
    if method not in found:
        return None
    value: float | None = found[method]["all"].get(_METRIC)
    return value
