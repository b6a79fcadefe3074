"""The collector that the settings name, and what they must not ask for.

The collector that gets the spans.

The exporter in a process of its own: what it encodes would hold this one's interpreter lock, and calls would wait.

It is also the only process that loads what OpenTelemetry needs.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Final
from urllib.parse import urlsplit

from nomemory.server.listen_address import ListenAddressError, parse_listen_address
from nomemory.server.processes.launch import Launch, WorkerError
from nomemory.server.processes.watch import Vigil
from nomemory.server.processes.worker import Worker
from nomemory.server.settings import Settings
from nomemory.server.tracing.span_export import Delivery


@dataclass(frozen=True, slots=True)
class Collector:
    """Where spans go.

    Attributes:
        target: HOST:PORT.
        is_tls: whether the connection is encrypted.
        trusted: certificates to trust, PEM; None: those that gRPC trusts.
        headers: what is sent along.
        timeout_s: how long it may take for a batch.
        service: what this server is called.
    """

    target: str
    is_tls: bool
    trusted: bytes | None
    headers: tuple[tuple[str, str], ...]
    timeout_s: float
    service: str


_NO_PACKAGE: Final = (
    "NOMEMORY_OTLP_ENDPOINT: to send spans takes the package opentelemetry-proto: pip install 'nomemory[otel]'"
)
_NO_ENDPOINT: Final = "{} needs NOMEMORY_OTLP_ENDPOINT: there is nowhere to send spans to"


class TracingSettingsError(ValueError):
    """The settings do not describe where spans go, or would show secrets to others; the text says what to set."""


def collector_of(settings: Settings) -> Collector | None:
    """Return where spans go; None: there are no traces.

    Raises:
        TracingSettingsError: half of it is configured, a package is missing, or content or credentials would cross a
            network in the clear.
        OSError: the file of certificates cannot be read.
    """
    if not settings.tracing.is_on:
        _refuse_without_endpoint(settings)
        return None
    if not _has_package():
        raise TracingSettingsError(_NO_PACKAGE)
    target, is_tls = _address(settings.tracing.endpoint.strip())
    if settings.tracing.ca is not None and not is_tls:
        raise TracingSettingsError("NOMEMORY_OTLP_CA needs an endpoint of https://")
    headers = () if settings.tracing.headers is None else _headers(settings.tracing.headers.get_secret_value())
    if not is_tls:
        _refuse_exposure(settings, target)
    trusted = settings.tracing.ca.read_bytes() if settings.tracing.ca else None
    return Collector(target, is_tls, trusted, headers, settings.tracing.timeout_s, settings.tracing.service)


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


def _has_package() -> bool:
    return find_spec("opentelemetry") is not None and find_spec("opentelemetry.proto") is not None


def _headers(text: str) -> tuple[tuple[str, str], ...]:
    pairs = [tuple(map(str.strip, pair.split("=", 1))) for pair in text.split(",")]
    if any(len(pair) != 2 or not all(pair) for pair in pairs):  # noqa: PLR2004 - a name and a value
        raise TracingSettingsError("NOMEMORY_OTLP_HEADERS must be NAME=VALUE, several of them with commas between")
    return tuple((name.lower(), value) for name, value in pairs)


def _refuse_exposure(settings: Settings, target: str) -> None:
    """Refuse to send to another machine in the clear what others must not read."""
    variables = settings.tracing.variables()
    secret = [variables[field] for field in ("headers", "content") if getattr(settings.tracing, field)]
    if secret and not _is_loopback(target) and not settings.identity.insecure_plaintext:
        raise TracingSettingsError(
            f"refusing to send spans to {target} in the clear with {' and '.join(secret)}: use https://, or "
            "NOMEMORY_INSECURE_PLAINTEXT=true where the network itself is encrypted"
        )


def _is_loopback(target: str) -> bool:
    try:
        return parse_listen_address(target).is_loopback()
    except ListenAddressError:
        return False


_MODULE: Final = "nomemory.server.tracing.exporter_worker"
_PART: Final = "span-exporter"
_SILENT_S: Final = 60.0
"""How long it may say nothing while batches wait: those of all processes go one after another."""


class ExporterProcess:
    """Sends batches of spans.

    Args:
        collector: where they go.
        vigil: how the process is watched.
    """

    def __init__(self, collector: Collector, vigil: Vigil) -> None:
        self._collector = collector
        self._worker = Worker(Launch(_MODULE), _SILENT_S, _PART, vigil)

    async def start(self) -> None:
        """Start the process ahead of the first batch; if it cannot be, that is tried again then."""
        with suppress(WorkerError):
            await self._worker.start()

    async def deliver(self, batch: bytes, spans: int) -> Delivery:
        """Send a batch; returns when the collector has it, or will not have it."""
        try:
            refused, cause = await self._worker.call((self._collector, batch))
        except WorkerError as error:
            return Delivery(spans, type(error).__name__)
        return Delivery(refused, cause)

    async def close(self) -> None:
        """End the process."""
        await self._worker.close()
