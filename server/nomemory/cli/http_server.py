"""Run an HTTP server for a command until it is stopped."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

import click
from starlette.types import ASGIApp

from nomemory.server.api.http.server import HttpServer
from nomemory.server.api.identity.credentials import IdentitySettingsError
from nomemory.server.api.identity.tls import TlsFiles
from nomemory.server.runtime.listen_address import ListenAddress, ListenAddressError
from nomemory.server.runtime.settings import Settings


async def run_application(
    application: ASGIApp,
    address: ListenAddress,
    settings: Settings,
    announce: Callable[[ListenAddress], None],
    tls: TlsFiles | None = None,
) -> None:
    """Serve an ASGI application until SIGTERM or SIGINT, then drain.

    Port 0 in `address` selects a free port; `announce` is called with the bound address. `settings` contains the
    timeouts. If `tls` is None, the server uses plain HTTP.

    Raises:
        click.ClickException: the address cannot be bound or the TLS files cannot be loaded.
    """
    stop = asyncio.Event()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(signal_number, stop.set)
    server = HttpServer(application, tls, settings.connections.connection_idle_timeout_s)
    try:
        bound = await server.start(address)
    except (IdentitySettingsError, ListenAddressError) as error:
        raise click.ClickException(str(error)) from None
    announce(bound)
    await stop.wait()
    await server.stop(settings.timing.drain_timeout_s)
