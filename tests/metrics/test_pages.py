"""Tests that the page, the dashboard and the alerts use existing metrics and labels."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from nomemory.server.runtime.listen_address import parse_listen_address
from nomemory.server.runtime.metrics.catalog import BY_NAME, CATALOG
from nomemory.server.runtime.metrics.family import MetricFamily, MetricType
from nomemory.server.runtime.metrics.samples import Samples
from nomemory.server.runtime.metrics.text import render_metrics

ROOT = Path(__file__).parent.parent.parent
DASHBOARD = ROOT / "deploy" / "grafana" / "nomemory.json"
ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yaml"
NAME = re.compile(r"\bnomemory_[a-z_]+\b")
SELECTED = re.compile(r"\b(nomemory_[a-z_]+)\{([^{}]*)\}")
LABEL = re.compile(r'\b([a-z_]+)\s*(?:=~|!~|!=|=)\s*"')
GROUPED = re.compile(r"\bby \(([^()]*)\)")
OF_PROMETHEUS = {"instance", "job", "le"}


def panels() -> Iterator[dict[str, Any]]:
    """Return the panels of the dashboard with queries."""
    for panel in json.loads(DASHBOARD.read_text("utf-8"))["panels"]:
        if panel["type"] != "row":
            yield panel


def rules() -> list[dict[str, Any]]:
    """Return the alert rules."""
    return [rule for group in yaml.safe_load(ALERTS.read_text("utf-8"))["groups"] for rule in group["rules"]]


def expressions() -> list[str]:
    """Return every query of the dashboard and the alerts."""
    shown = [target["expr"] for panel in panels() for target in panel["targets"]]
    return [*shown, *(rule["expr"] for rule in rules())]


def family(name: str) -> MetricFamily:
    """Return the metric name of a series."""
    if name in BY_NAME:
        assert BY_NAME[name].kind is not MetricType.HISTOGRAM, f"{name} is a histogram"
        return BY_NAME[name]
    base = re.sub("_(bucket|sum|count)$", "", name)
    assert BY_NAME[base].kind is MetricType.HISTOGRAM
    return BY_NAME[base]


@pytest.mark.parametrize("expression", expressions())
def test_every_series_exists_with_its_labels(expression: str) -> None:
    assert expression.count("(") == expression.count(")")
    families = [family(name) for name in NAME.findall(expression)]
    assert families or expression.startswith("up{")
    for name, selectors in SELECTED.findall(expression):
        assert set(LABEL.findall(selectors)) <= {*family(name).labels, *OF_PROMETHEUS}
    grouped = {label.strip() for group in GROUPED.findall(expression) for label in group.split(",")}
    assert grouped <= {*OF_PROMETHEUS, *(label for item in families for label in item.labels)}


def test_every_metric_is_in_the_dashboard_or_an_alert() -> None:
    shown = {family(name).name for expression in expressions() for name in NAME.findall(expression)}
    annotated = json.loads(DASHBOARD.read_text("utf-8"))["annotations"]["list"][0]["expr"]
    assert {item.name for item in CATALOG} - shown - set(NAME.findall(annotated)) == set()


def test_every_panel_has_a_position_and_every_alert_has_advice() -> None:
    positions = [tuple(panel["gridPos"][edge] for edge in "xy") for panel in panels()]
    assert len(positions) == len(set(positions))
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in panels())
    names = [rule["alert"] for rule in rules()]
    assert len(names) == len(set(names))
    for rule in rules():
        assert rule["labels"]["severity"] in {"page", "warn"}
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["action"]


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_accepts_the_alerts() -> None:
    subprocess.run(["promtool", "check", "rules", str(ALERTS)], check=True)  # noqa: S607 - wherever the system has it


def test_metrics_page_is_generated_from_the_catalog() -> None:
    script = ROOT / "scripts" / "gen_metrics_docs.py"
    done = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_documented_scrape_configuration_is_valid() -> None:
    [block] = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / "metrics.md").read_text("utf-8"), re.DOTALL)
    [job] = yaml.safe_load(block)["scrape_configs"]
    assert job.keys() == {"job_name", "authorization", "static_configs"}
    assert job["authorization"].keys() == {
        "credentials_file"
    }  # sent as `Authorization: Bearer`, from /metrics by default
    for config in job["static_configs"]:
        assert all(parse_listen_address(target).port for target in config["targets"])


def test_metric_names_and_types_follow_prometheus_conventions() -> None:
    assert len(BY_NAME) == len(CATALOG)
    for item in CATALOG:
        assert re.fullmatch(r"nomemory_[a-z][a-z_]*[a-z]", item.name)
        assert bool(item.bounds) is (item.kind is MetricType.HISTOGRAM)
        assert list(item.bounds) == sorted(set(item.bounds))


def test_label_values_are_escaped() -> None:
    samples = Samples()
    samples.set_value(BY_NAME["nomemory_active_faults"], 1, 'a"b\\c\nd', "KIND")
    assert r'nomemory_active_faults{component="a\"b\\c\nd",kind="KIND"} 1' in render_metrics(samples).decode()
