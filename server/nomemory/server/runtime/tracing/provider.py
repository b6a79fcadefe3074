"""Where spans go: OpenTelemetry's SDK records them and sends them to the collector that the settings name.

The SDK is imported only where there is a collector.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from nomemory.server import __version__
from nomemory.server.runtime.listen_address import parse_listen_address
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.startup_errors import CannotStartError, need_extra
from nomemory.spans.span import CallTracer

if TYPE_CHECKING:
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.sampling import Sampler

_NO_ENDPOINT: Final = "{} needs NOMEMORY_OTLP_ENDPOINT: there is nowhere to send spans to"
_LAST_S: Final = 3.0
"""How long a process that ends may take to send what is left."""
_MS: Final = 1000


class TracingSettingsError(CannotStartError):
    """The settings do not describe where spans go, or would show secrets to others; the text says what to set."""


def start_tracing(settings: Settings, stack: AsyncExitStack) -> CallTracer | None:
    """Record the spans of this process and send them from now on; the stack sends the last ones.

    Args:
        settings: of the server.
        stack: ends it.

    Returns:
        What begins the spans of calls; None: there are no traces.

    Raises:
        TracingSettingsError: half of it is configured, or content or credentials would cross a network in the clear.
        ExtraMissingError: the packages that send spans are not installed.
        OSError: the file of certificates cannot be read.
    """
    if not settings.tracing.is_on:
        _refuse_without_endpoint(settings)
        return None
    exporter = _exporter(settings)
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - see above
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

    named: dict[str, str | int] = {
        "service.name": settings.tracing.service_name,
        "service.version": __version__,
        "process.pid": os.getpid(),
    }
    provider = TracerProvider(_sampler(settings), Resource(named), shutdown_on_exit=False)
    batches = BatchSpanProcessor(
        exporter,
        max_queue_size=settings.tracing.max_queue_size,
        schedule_delay_millis=settings.tracing.export_interval_s * _MS,
        max_export_batch_size=settings.tracing.max_batch_size,
    )
    provider.add_span_processor(batches)
    stack.push_async_callback(_end, provider, exporter)
    return CallTracer(provider.get_tracer("nomemory", __version__), shows_content=settings.tracing.content)


async def _end(provider: TracerProvider, exporter: OTLPSpanExporter) -> None:
    """Send what is left, as long as that does not take too long."""
    sending = asyncio.create_task(asyncio.to_thread(provider.shutdown))
    _, unsent = await asyncio.wait([sending], timeout=_LAST_S)
    if unsent:
        exporter.shutdown()
    await sending


def _sampler(settings: Settings) -> Sampler:
    from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased  # noqa: PLC0415

    share = TraceIdRatioBased(settings.tracing.sample_ratio)
    if settings.tracing.parent_sampling:
        return ParentBased(share)
    return ParentBased(share, remote_parent_sampled=share, remote_parent_not_sampled=share)


def _exporter(settings: Settings) -> OTLPSpanExporter:
    """Connect to the collector."""
    need_extra("otel", ("opentelemetry.sdk", "opentelemetry.exporter"), "NOMEMORY_OTLP_ENDPOINT")
    target, is_tls = _address(settings.tracing.endpoint.strip())
    if settings.tracing.ca is not None and not is_tls:
        raise TracingSettingsError("NOMEMORY_OTLP_CA needs an endpoint of https://")
    headers = () if settings.tracing.headers is None else _headers(settings.tracing.headers.get_secret_value())
    if not is_tls:
        _refuse_exposure(settings, target)
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


def _address(endpoint: str) -> tuple[str, bool]:
    """Return HOST:PORT, and whether it is TLS. The endpoint is not shown: somebody may have put a password into it."""
    try:
        parts = urlsplit(endpoint)
        is_one = parts.scheme in {"http", "https"} and parts.hostname and parts.port
    except ValueError:
        is_one = False
    if not is_one or parts.path.strip("/") or parts.query or parts.fragment or "@" in parts.netloc:
        raise TracingSettingsError("NOMEMORY_OTLP_ENDPOINT must be http://HOST:PORT or https://HOST:PORT")
    return parts.netloc, parts.scheme == "https"


def _refuse_without_endpoint(settings: Settings) -> None:
    variables = settings.tracing.variables()
    for field in ("headers", "ca", "content"):
        if getattr(settings.tracing, field) not in {None, False}:
            raise TracingSettingsError(_NO_ENDPOINT.format(variables[field]))


def _headers(text: str) -> tuple[tuple[str, str], ...]:
    pairs = [tuple(map(str.strip, pair.split("=", 1))) for pair in text.split(",")]
    if any(len(pair) != 2 or not all(pair) for pair in pairs):  # noqa: PLR2004 - a name and a value
        raise TracingSettingsError("NOMEMORY_OTLP_HEADERS must be NAME=VALUE, several of them with commas between")
    return tuple((name.lower(), value) for name, value in pairs)


def _refuse_exposure(settings: Settings, target: str) -> None:
    """Refuse to send to another machine in the clear what others must not read."""
    variables = settings.tracing.variables()
    secret = [variables[field] for field in ("headers", "content") if getattr(settings.tracing, field)]
    if secret and not parse_listen_address(target).is_loopback() and not settings.identity.insecure_plaintext:
        raise TracingSettingsError(
            f"refusing to send spans to {target} in the clear with {' and '.join(secret)}: use https://, or "
            "NOMEMORY_INSECURE_PLAINTEXT=true where the network itself is encrypted"
        )
