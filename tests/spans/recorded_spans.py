"""Spans that are recorded in memory."""

from __future__ import annotations

from collections.abc import Sequence

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

from nomemory.spans.span import CallTracer


class Kept:
    """Starts call spans, and records ended ones."""

    def __init__(self, ratio: float = 1.0, *, shows_content: bool = False) -> None:
        self._exporter = InMemorySpanExporter()
        sampler = ParentBased(TraceIdRatioBased(ratio))
        provider = TracerProvider(sampler, Resource({}), shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = CallTracer(provider.get_tracer("tests"), shows_content=shows_content)

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        """Return the recorded spans."""
        return self._exporter.get_finished_spans()
