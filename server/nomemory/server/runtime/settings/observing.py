"""Metrics and traces."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from pydantic import Field, SecretStr

from nomemory.server.runtime.settings.group import SettingsGroup, variables


class MetricsSettings(SettingsGroup):
    """Figures for Prometheus (docs/metrics.md)."""

    model_config = variables("metrics_")
    heading: ClassVar[str] = "Metrics"

    listen: str = Field(
        "",
        description="HOST:PORT to serve `/metrics` on by itself; port 0 picks a free one. Empty: it is served where "
        "HTTP is, and nowhere else.",
        validation_alias="NOMEMORY_METRICS_LISTEN",
    )
    token: SecretStr | None = Field(
        None,
        min_length=16,
        description="Bearer token of whoever scrapes, at least 16 characters; good for `/metrics` alone. Unset: a "
        "server that checks credentials wants a key with the scope `admin`.",
    )


class TracingSettings(SettingsGroup):
    """Traces for OpenTelemetry (docs/tracing.md)."""

    model_config = variables("trace_")
    heading: ClassVar[str] = "Traces"

    endpoint: str = Field(
        "",
        description="Collector that gets spans by OTLP over gRPC: `http://HOST:PORT`, or `https://…` for TLS. Needs "
        "`nomemory[otel]`. Empty: there are no traces.",
        validation_alias="NOMEMORY_OTLP_ENDPOINT",
    )
    headers: SecretStr | None = Field(
        None,
        description="What is sent with the spans, `NAME=VALUE,NAME=VALUE`: the collector's credentials.",
        validation_alias="NOMEMORY_OTLP_HEADERS",
    )
    ca: Path | None = Field(
        None,
        description="Certificates (PEM) to trust there. Unset: those that gRPC trusts.",
        validation_alias="NOMEMORY_OTLP_CA",
    )
    ratio: float = Field(
        0.1, ge=0, le=1, description="Share of the traces that begin here which are recorded: 1 is all, 0 is none."
    )
    parent_sampling: bool = Field(
        default=True,
        description="Whether a call with a `traceparent` is recorded if that says so, and not if not. false: the share "
        "decides for all.",
    )
    content: bool = Field(
        default=False,
        description="Whether spans may hold questions, messages, prompts, answers and ids of users. Whoever reads the "
        "collector then reads those.",
    )
    service: str = Field("nomemory", description="What this server is called in traces.")
    queue_max: int = Field(4096, ge=1, description="Maximum spans that wait to be sent; further ones are dropped.")
    batch_max: int = Field(512, ge=1, description="Maximum spans in one export.")
    flush_s: float = Field(1.0, gt=0, description="Interval of exports, in seconds.")
    timeout_s: float = Field(3.0, gt=0, description="Time limit of an export, in seconds.")

    @property
    def is_on(self) -> bool:
        """Whether there are traces."""
        return bool(self.endpoint.strip())
