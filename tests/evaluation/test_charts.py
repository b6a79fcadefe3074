"""Tests for the charts of the documentation: values, accessibility and rendering."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner
from documentation.blocks import ROOT
from load import performance_chart
from load.bench import parse_arguments
from load.cases import _READS

from evaluation import charts
from evaluation.asking import NAMES
from evaluation.bench import bench_recall
from evaluation.charts import BarChart, BarGroup, render_svg

CHARTS = ROOT / "docs" / "charts"
SVG = "{http://www.w3.org/2000/svg}"
PICTURES = sorted(CHARTS.glob("*.svg"))
CHART = BarChart(
    "A <title>", "A note.", ("one", "two"), (BarGroup("a & b", (1.0, None)), BarGroup("c", (0.25, 0.5))), str
)


def table(page: str, begins: str) -> Iterator[list[str]]:
    """Yield the cells of the rows of a page's table, without bold."""
    text = (ROOT / "docs" / page).read_text("utf-8")
    lines = text[text.index(begins) :].split("\n\n")[0].splitlines()
    for line in lines[2:]:
        yield [cell.strip().replace("**", "") for cell in line.strip("|").split("|")]


def numbers(cell: str) -> list[float | None]:
    """Return the numbers of a cell, separated by slashes."""
    return [None if item.strip() == "–" else float(item.replace(",", "")) for item in cell.split("/") if item.strip()]


def figures(name: str) -> Any:  # noqa: ANN401 - JSON
    return json.loads((CHARTS / name).read_text("utf-8"))


def test_quality_chart_values_equal_the_table() -> None:
    rows = {row[0].split("`")[1]: row[1:] for row in table("quality.md", "| recall of the evidence") if "`" in row[0]}
    sets = figures(charts.FIGURES)["sets"]
    assert list(rows) == list(NAMES)
    for method, cells in rows.items():
        for set_figures, cell in zip(sets.values(), cells, strict=True):
            expected = set_figures[method]["all"]
            assert [expected.get(name) for name in ("recall@6", "recall@10", "hit@1")] == numbers(cell)


def test_performance_chart_values_equal_the_table() -> None:
    rows = list(table("performance.md", "| read | typical: CPU ms"))[1:]  # the first one, in bytes, is not drawn
    expected: dict[str, Any] = {}
    for (read, label), row in zip(performance_chart.READS.items(), rows, strict=True):
        assert name_the_same_read(label, row[0])
        expected |= {f"{read}_typical": case(*row[1:4])}
        expected |= {f"{read}_heavy": case(row[4], row[5], "")} if row[4] else {}
    assert figures(performance_chart.FIGURES) == {"cases": expected}


def case(cpu: str, waits: str, rate: str) -> dict[str, dict[str, float | None]]:
    """Return the table cells of a read as benchmark results."""
    cpu_ms, many = numbers(cpu), dict(zip(["rps"], numbers(rate), strict=False))
    measured = {"cpu_ms": cpu_ms[0], **dict(zip(["p50_ms", "p99_ms"], numbers(waits), strict=False))}
    return {"1": measured, "16": {"cpu_ms": cpu_ms[1], **many}}


def name_the_same_read(label: str, name: str) -> bool:
    """Return whether a chart label and a table row share most words and so name the same read."""
    ours, theirs = ({*re.findall(r"\w+", text.lower())} for text in (label, name))
    return len(ours & theirs) >= len(ours) / 2


def test_charts_are_drawn_from_the_recorded_values() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "gen_charts.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("file", PICTURES, ids=lambda path: path.name)
def test_chart_has_a_complete_text_alternative(file: Path) -> None:
    drawn = ET.fromstring(file.read_text("utf-8"))  # noqa: S314 - our own
    assert drawn.get("role") == "img"
    names = (drawn.get("aria-labelledby") or "").split()
    expected = {item.get("id"): item.text or "" for item in drawn if item.get("id")}
    assert names == list(expected)
    assert all(expected.values())
    seen = [item.text or "" for item in drawn.iter(f"{SVG}text")]
    values = [text for text in seen if re.fullmatch(r"[\d.]+", text)]
    assert len(values) > 5
    assert all(f" {value}" in expected["description"] for value in values)


@pytest.mark.parametrize("file", PICTURES, ids=lambda path: path.name)
def test_chart_loads_no_resources_and_stays_within_its_view_box(file: Path) -> None:
    text = file.read_text("utf-8")
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "<script" not in text
    drawn = ET.fromstring(text)  # noqa: S314 - our own
    width, height = (float(drawn.get(name, 0)) for name in ("width", "height"))
    for item in drawn.iter(f"{SVG}rect"):
        x, y, w, h = (float(item.get(name, 0)) for name in ("x", "y", "width", "height"))
        assert x + w <= width
        assert y + h <= height


def test_chart_text_has_sufficient_contrast_in_light_and_dark_mode() -> None:
    light, dark = re.findall(r"\.ground \{ fill: (#\w+) \}(.*?)(?=@media|</style>)", render_svg(CHART))
    for ground, rules in (light, dark):
        for name, colour in re.findall(r"\.(\w+) \{ fill: (#\w+) \}", rules):
            least = 4.5 if name in ("text", "quiet") else 3.0
            assert contrast(ground, colour) >= least, (ground, name)


def contrast(first: str, other: str) -> float:
    """Return the WCAG contrast ratio of two colors."""
    bright, dim = sorted((_luminance(first), _luminance(other)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_chart_text_is_escaped_and_missing_values_are_omitted() -> None:
    drawn = ET.fromstring(render_svg(CHART))  # noqa: S314 - our own
    texts = [item.text for item in drawn.iter(f"{SVG}text")]
    assert {"A <title>", "a & b"} <= set(texts)
    assert [text for text in texts if text and re.fullmatch(r"[\d.]+", text)] == ["1.0", "0.25", "0.5"]
    assert render_svg(CHART) == render_svg(CHART)


def test_a_chart_without_measurements_is_valid_svg() -> None:
    ET.fromstring(charts.render_chart({"sets": {}}))  # noqa: S314 - our own


def test_benchmarks_draw_their_results(tmp_path: Path) -> None:
    full = {"all": {"recall@6": 0.5, "recall@10": 0.75, "hit@1": 0.25, "mrr": 0.4, "ci": {}}, "categories": {}}
    charts.write_chart({"a set": {"HybridSearch": full}}, tmp_path)
    kept = json.loads((tmp_path / charts.FIGURES).read_text("utf-8"))
    assert kept == {"sets": {"a set": {"HybridSearch": {"all": {"recall@6": 0.5, "recall@10": 0.75, "hit@1": 0.25}}}}}
    assert "a set .500" in (tmp_path / charts.PICTURE).read_text("utf-8")
    case = {"cpu_ms": 1.234, "p50_ms": 2.0, "p99_ms": 3.0, "rps": 10.0, "reply_bytes": 7}
    performance_chart.write_charts({"cases": {"list_typical": {"1": case}, "http_list_typical": {"1": case}}}, tmp_path)
    kept = json.loads((tmp_path / performance_chart.FIGURES).read_text("utf-8"))
    assert kept == {"cases": {"list_typical": {"1": {name: case[name] for name in case if name != "reply_bytes"}}}}
    assert "one caller 1.23" in (tmp_path / "performance-typical.svg").read_text("utf-8")


def test_every_benchmarked_read_has_a_chart_label() -> None:
    assert {*_READS, "null_list"} == performance_chart.READS.keys()


def test_benchmarks_accept_the_charts_option(tmp_path: Path) -> None:
    assert parse_arguments(["--charts", str(tmp_path)]).charts == tmp_path
    assert "--charts" in CliRunner().invoke(bench_recall, ["--help"]).output
