"""Bar charts as SVG, including the chart of `scripts/bench_recall`. The same figures always produce identical files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Final

from evaluation.asking import NAMES

SERIES_MAX: Final = 4
"""Maximum number of series, limited by the number of colors."""
FIGURES: Final = "quality.json"
PICTURE: Final = "quality.svg"

_WIDTH: Final = 760
_LABELS: Final = 264
_VALUES: Final = 60
_MARGIN: Final = 20
_TOP: Final = 88
_BAR: Final = 13
_GAP: Final = 11
_LEGEND_STEP: Final = 150
_FONT: Final = "font-family='system-ui, -apple-system, Segoe UI, Roboto, sans-serif'"
_LIGHT: Final = ("#ffffff", "#1f2328", "#59636e", "#0550ae", "#bc4c00", "#1a7f37", "#8250df")
_DARK: Final = ("#0d1117", "#e6edf3", "#9198a1", "#79c0ff", "#ffa657", "#56d364", "#d2a8ff")
_CLASSES: Final = ("ground", "text", "quiet", *(f"s{number}" for number in range(SERIES_MAX)))
_METRIC: Final = "recall@6"
_KEPT: Final = (_METRIC, "recall@10", "hit@1")
_NOTE: Final = "Share of the evidence among the first six messages. Longer is better."

Sets = Mapping[str, Mapping[str, Any]]
"""Figures of each method, by set."""


@dataclass(frozen=True, slots=True)
class BarGroup:
    """A group of bars, with one value per series; None draws no bar."""

    label: str
    values: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class BarChart:
    """A bar chart.

    Attributes:
        note: measurement conditions, and whether longer or shorter bars are better.
        series: names of the bars of a group, at most four.
        rows: groups of bars, top to bottom.
        format_value: function that formats a value as in the documentation.
    """

    title: str
    note: str
    series: tuple[str, ...]
    rows: tuple[BarGroup, ...]
    format_value: Callable[[float], str]

    def describe_figures(self) -> str:
        """Return all figures as text, for screen readers."""
        return " ".join([self.note, *(f"{row.label}: {', '.join(self._format_values(row))}." for row in self.rows)])

    def _format_values(self, row: BarGroup) -> Iterator[str]:
        for name, value in zip(self.series, row.values, strict=True):
            if value is not None:
                yield f"{name} {self.format_value(value)}"


def render_svg(chart: BarChart) -> str:
    """Draw a chart with its own background, which makes it readable on light and dark pages."""
    step = _BAR * len(chart.series) + _GAP
    height = _TOP + step * len(chart.rows) + _MARGIN
    longest = max((value for row in chart.rows for value in row.values if value is not None), default=0.0) or 1.0
    bars = [
        element
        for number, row in enumerate(chart.rows)
        for element in _render_row(chart, row, _TOP + step * number, (_WIDTH - _LABELS - _VALUES - _MARGIN) / longest)
    ]
    head = (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {_WIDTH} {height}' width='{_WIDTH}' height='{height}' "
        f"role='img' aria-labelledby='title description' {_FONT} font-size='12'>"
    )
    elements = [
        head,
        f"<title id='title'>{escape(chart.title)}</title>",
        f"<desc id='description'>{escape(chart.describe_figures())}</desc>",
        f"<style>{_render_style()}</style>",
        f"<rect class='ground' width='{_WIDTH}' height='{height}' rx='8'/>",
        f"<text class='text' x='{_MARGIN}' y='28' font-size='16' font-weight='600'>{escape(chart.title)}</text>",
        f"<text class='quiet' x='{_MARGIN}' y='47'>{escape(chart.note)}</text>",
        *_render_legend(chart.series),
        *bars,
        "</svg>",
    ]
    return "\n".join(elements) + "\n"


def _render_style() -> str:
    light, dark = (_render_css_rules(colors) for colors in (_LIGHT, _DARK))
    return f"{light} @media (prefers-color-scheme: dark) {{ {dark} }}"


def _render_css_rules(colors: Sequence[str]) -> str:
    return " ".join(f".{name} {{ fill: {color} }}" for name, color in zip(_CLASSES, colors, strict=True))


def _render_legend(series: Sequence[str]) -> Iterator[str]:
    for number, name in enumerate(series):
        x = _MARGIN + _LEGEND_STEP * number
        yield f"<rect class='s{number}' x='{x}' y='60' width='12' height='12' rx='2'/>"
        yield f"<text class='text' x='{x + 18}' y='70'>{escape(name)}</text>"


def _render_row(chart: BarChart, row: BarGroup, top: int, scale: float) -> Iterator[str]:
    middle = top + _BAR * len(chart.series) / 2 + 4
    yield f"<text class='text' x='{_LABELS - 10}' y='{middle:.1f}' text-anchor='end'>{escape(row.label)}</text>"
    for number, value in enumerate(row.values):
        if value is not None:
            y, length = top + _BAR * number, max(1.0, value * scale)
            yield f"<rect class='s{number}' x='{_LABELS}' y='{y}' width='{length:.1f}' height='{_BAR - 2}' rx='2'/>"
            yield f"<text class='text' x='{_LABELS + length + 6:.1f}' y='{y + 10}'>{chart.format_value(value)}</text>"


def write_chart(sets: Sets, folder: Path) -> None:
    """Write the chart and its figures to a folder."""
    kept = select_published_figures(sets)
    (folder / FIGURES).write_text(json.dumps(kept, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    (folder / PICTURE).write_text(render_chart(kept), encoding="utf-8")


def select_published_figures(sets: Sets) -> dict[str, Any]:
    """Return the figures that the documentation shows, in the structure of the benchmark output."""
    return {
        "sets": {
            name: {method: _select_overall_figures(item) for method, item in by_method.items()}
            for name, by_method in sets.items()
        }
    }


def render_chart(figures: Mapping[str, Any]) -> str:
    """Draw the chart of a benchmark, with the first four sets."""
    sets = dict(list(figures["sets"].items())[:SERIES_MAX])
    methods = [method for method in NAMES if any(method in by_method for by_method in sets.values())]
    rows = tuple(
        BarGroup(method, tuple(_read_method_value(by_method, method) for by_method in sets.values()))
        for method in methods
    )
    return render_svg(BarChart("Evidence recall by method", _NOTE, tuple(sets), rows, format_share))


def format_share(value: float) -> str:
    """Format a share with three digits and no leading zero: `.741`."""
    return f"{value:.3f}".removeprefix("0")


def _select_overall_figures(result: Mapping[str, Any]) -> dict[str, Any]:
    figures = result["all"]
    return {"all": {name: figures[name] for name in _KEPT if name in figures}}


def _read_method_value(by_method: Mapping[str, Any], method: str) -> float | None:
    if method not in by_method:
        return None
    value: float | None = by_method[method]["all"].get(_METRIC)
    return value
