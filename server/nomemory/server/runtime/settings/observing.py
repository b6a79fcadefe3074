"""Settings for metrics and traces."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from pydantic import Field, SecretStr

from nomemory.server.runtime.settings.group import SettingsGroup, map_fields_to_variables


class MetricsSettings(SettingsGroup):
    """Settings of Prometheus metrics (docs/metrics.md)."""

    model_config = map_fields_to_variables("metrics_")
    heading: ClassVar[str] = "Metrics"

    listen: str = Field(
        "",
        description="HOST:PORT of a separate metrics endpoint. Port 0 picks a free port. If empty, "
        "`/metrics` is available only on the HTTP address, if HTTP is enabled.",
        validation_alias="NOMEMORY_METRICS_LISTEN",
    )
    token: SecretStr | None = Field(
        None,
        min_length=16,
        description="Bearer token for `/metrics`, at least 16 characters. If unset and the server requires "
        "credentials, a scrape needs an API key with the scope `admin`.",
    )


class TracingSettings(SettingsGroup):
    """Settings of OpenTelemetry traces (docs/tracing.md)."""

    model_config = map_fields_to_variables("trace_")
    heading: ClassVar[str] = "Traces"

    endpoint: str = Field(
        "",
        description="OTLP/gRPC endpoint of an OpenTelemetry collector: `http://HOST:PORT`, or `https://HOST:PORT` "
        "for TLS. Requires `nomemory[otel]`. If empty, tracing is disabled.",
        validation_alias="NOMEMORY_OTLP_ENDPOINT",
    )
    headers: SecretStr | None = Field(
        None,
        description="Headers of OTLP requests as `NAME=VALUE,NAME=VALUE`, for example credentials of the collector.",
        validation_alias="NOMEMORY_OTLP_HEADERS",
    )
    ca: Path | None = Field(
        None,
        description="CA certificates (PEM file) of the OTLP endpoint. If unset, the server uses the default CA "
        "certificates of gRPC.",
        validation_alias="NOMEMORY_OTLP_CA",
    )
    sample_ratio: float = Field(0.1, ge=0, le=1, description="Fraction of new traces that are recorded, from 0 to 1.")
    parent_sampling: bool = Field(
        default=True,
        description="Whether the `traceparent` header of a call decides if the call is recorded. If false, "
        "NOMEMORY_TRACE_SAMPLE_RATIO applies to all calls.",
    )
    content: bool = Field(
        default=False,
        description="Whether spans contain questions, messages, prompts, answers and user ids. Everyone with "
        "access to the collector can then read this content.",
    )
    service_name: str = Field("nomemory", description="Value of `service.name` in traces.")
    max_queue_size: int = Field(
        4096, ge=1, description="Maximum number of spans that wait for export. Further spans are dropped."
    )
    max_batch_size: int = Field(512, ge=1, description="Maximum number of spans in an export.")
    export_interval_s: float = Field(1.0, gt=0, description="Interval between exports, in seconds.")
    export_timeout_s: float = Field(3.0, gt=0, description="Time limit of an export, in seconds.")

    @property
    def is_enabled(self) -> bool:
        """Whether the settings enable tracing."""
        return bool(self.endpoint.strip())
