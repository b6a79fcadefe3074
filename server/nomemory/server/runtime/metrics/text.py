"""The Prometheus text format, version 0.0.4."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final

from nomemory.server.runtime.metrics.catalog import CATALOG
from nomemory.server.runtime.metrics.family import MetricFamily
from nomemory.server.runtime.metrics.samples import Histogram, Labels, Samples, Value

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


def render_metrics(samples: Samples) -> bytes:
    """Render samples. The text contains the HELP and TYPE lines of every family, even of a family without samples."""
    return "".join(_render_lines(samples)).encode()


def _render_lines(samples: Samples) -> Iterator[str]:
    for family in CATALOG:
        yield f"# HELP {family.name} {family.meaning}\n# TYPE {family.name} {family.kind}\n"
        values = samples.values.get(family.name, {})
        for labels in sorted(values):
            yield from _render_sample_lines(family, labels, values[labels])


def _render_sample_lines(family: MetricFamily, labels: Labels, value: Value) -> Iterator[str]:
    pairs = [f'{name}="{_escape_label(label)}"' for name, label in zip(family.labels, labels, strict=True)]
    if not isinstance(value, Histogram):
        yield f"{family.name}{_format_labels(pairs)} {value}\n"
        return
    bounds = (*map(str, family.bounds), "+Inf")
    for bound, count in zip(bounds, accumulate(value.counts), strict=True):
        bucket = _format_labels([*pairs, f'le="{bound}"'])
        yield f"{family.name}_bucket{bucket} {count}\n"
    yield f"{family.name}_sum{_format_labels(pairs)} {value.total}\n"
    yield f"{family.name}_count{_format_labels(pairs)} {sum(value.counts)}\n"


def _format_labels(pairs: Sequence[str]) -> str:
    return f"{{{','.join(pairs)}}}" if pairs else ""


def _escape_label(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
