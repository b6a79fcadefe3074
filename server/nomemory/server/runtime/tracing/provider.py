"""Setup of the OpenTelemetry SDK and the OTLP exporter, which are imported only if tracing is enabled."""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from nomemory.server import __version__
from nomemory.server.runtime.listen_address import parse_listen_address
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.startup_errors import StartupError, require_extra
from nomemory.spans.span import CallTracer

if TYPE_CHECKING:
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.sampling import Sampler

_NO_ENDPOINT: Final = "{} requires NOMEMORY_OTLP_ENDPOINT, which is not set"
_SHUTDOWN_TIMEOUT_S: Final = 3.0
"""Time limit for exporting the remaining spans at shutdown, in seconds."""
_MS: Final = 1000


class TracingSettingsError(StartupError):
    """The tracing settings are incomplete, or would send secrets without encryption."""


def start_tracing(settings: Settings, stack: AsyncExitStack) -> CallTracer | None:
    """Start exporting spans.

    On exit, `stack` exports the remaining spans and stops the exporter.

    Returns:
        The tracer that starts the spans of calls, or None if tracing is disabled.

    Raises:
        TracingSettingsError: the settings are incomplete, or would send content or credentials to another machine
            without TLS.
        ExtraMissingError: the OpenTelemetry packages are not installed.
        OSError: the CA file cannot be read.
    """
    if not settings.tracing.is_enabled:
        _reject_missing_endpoint(settings)
        return None
    exporter = _create_exporter(settings)
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - see above
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

    attributes: dict[str, str | int] = {
        "service.name": settings.tracing.service_name,
        "service.version": __version__,
        "process.pid": os.getpid(),
    }
    provider = TracerProvider(_create_sampler(settings), Resource(attributes), shutdown_on_exit=False)
    processor = BatchSpanProcessor(
        exporter,
        max_queue_size=settings.tracing.max_queue_size,
        schedule_delay_millis=settings.tracing.export_interval_s * _MS,
        max_export_batch_size=settings.tracing.max_batch_size,
    )
    provider.add_span_processor(processor)
    stack.push_async_callback(_shut_down, provider, exporter)
    return CallTracer(provider.get_tracer("nomemory", __version__), shows_content=settings.tracing.content)


async def _shut_down(provider: TracerProvider, exporter: OTLPSpanExporter) -> None:
    """Export the remaining spans within the shutdown timeout, and stop the exporter."""
    flushing = asyncio.create_task(asyncio.to_thread(provider.shutdown))
    _, pending = await asyncio.wait([flushing], timeout=_SHUTDOWN_TIMEOUT_S)
    if pending:
        exporter.shutdown()
    await flushing


def _create_sampler(settings: Settings) -> Sampler:
    from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased  # noqa: PLC0415

    share = TraceIdRatioBased(settings.tracing.sample_ratio)
    if settings.tracing.parent_sampling:
        return ParentBased(share)
    return ParentBased(share, remote_parent_sampled=share, remote_parent_not_sampled=share)


def _create_exporter(settings: Settings) -> OTLPSpanExporter:
    """Return an exporter that sends spans to the configured collector."""
    require_extra("otel", ("opentelemetry.sdk", "opentelemetry.exporter"), "NOMEMORY_OTLP_ENDPOINT")
    target, is_tls = _parse_endpoint(settings.tracing.endpoint.strip())
    if settings.tracing.ca is not None and not is_tls:
        raise TracingSettingsError("NOMEMORY_OTLP_CA requires an https:// endpoint")
    headers = () if settings.tracing.headers is None else _parse_headers(settings.tracing.headers.get_secret_value())
    if not is_tls:
        _reject_exposure(settings, target)
    from grpc import ssl_channel_credentials  # noqa: PLC0415
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter  # noqa: PLC0415

    trusted = (
        ssl_channel_credentials(settings.tracing.ca.read_bytes() if settings.tracing.ca else None) if is_tls else None
    )
    return OTLPSpanExporter(
        settings.tracing.endpoint.strip(),
        insecure=not is_tls,
        credentials=trusted,
        headers=headers,
        timeout=settings.tracing.export_timeout_s,
    )


def _parse_endpoint(endpoint: str) -> tuple[str, bool]:
    """Return the HOST:PORT of an endpoint, and whether it uses TLS.

    Error messages do not quote the URL, which may contain a password.
    """
    try:
        parts = urlsplit(endpoint)
        is_valid = parts.scheme in {"http", "https"} and parts.hostname and parts.port
    except ValueError:
        is_valid = False
    if not is_valid or parts.path.strip("/") or parts.query or parts.fragment or "@" in parts.netloc:
        raise TracingSettingsError("NOMEMORY_OTLP_ENDPOINT must be http://HOST:PORT or https://HOST:PORT")
    return parts.netloc, parts.scheme == "https"


def _reject_missing_endpoint(settings: Settings) -> None:
    variables = settings.tracing.map_variables_by_field()
    for field in ("headers", "ca", "content"):
        if getattr(settings.tracing, field) not in {None, False}:
            raise TracingSettingsError(_NO_ENDPOINT.format(variables[field]))


def _parse_headers(text: str) -> tuple[tuple[str, str], ...]:
    pairs = [tuple(map(str.strip, pair.split("=", 1))) for pair in text.split(",")]
    if any(len(pair) != 2 or not all(pair) for pair in pairs):  # noqa: PLR2004 - a name and a value
        raise TracingSettingsError("NOMEMORY_OTLP_HEADERS must be a comma-separated list of NAME=VALUE")
    return tuple((name.lower(), value) for name, value in pairs)


def _reject_exposure(settings: Settings, target: str) -> None:
    """Raise an error if headers or message content would be sent to another machine without TLS."""
    variables = settings.tracing.map_variables_by_field()
    secret = [variables[field] for field in ("headers", "content") if getattr(settings.tracing, field)]
    if secret and not parse_listen_address(target).is_loopback() and not settings.identity.insecure_plaintext:
        raise TracingSettingsError(
            f"refusing to send spans to {target} without TLS because of {' and '.join(secret)}: use https://, or set "
            "NOMEMORY_INSECURE_PLAINTEXT=true if the network is encrypted"
        )
