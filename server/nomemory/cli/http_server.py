"""Serves HTTP for a command until it is told to stop, on the server that `nomemory serve --http` has."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

import click

from nomemory.server.identity.half_configuration import IdentitySettingsError
from nomemory.server.identity.tls import TlsFiles
from nomemory.server.listen_address import ListenAddress, ListenAddressError
from nomemory.server.overload.connections import affordable_connections
from nomemory.server.settings import Settings
from nomemory.server.web.asgi_server import AsgiServer
from nomemory.server.web.connection import ConnectionLimits
from nomemory.server.web.exchange import AsgiApplication


async def serve(
    application: AsgiApplication,
    address: ListenAddress,
    settings: Settings,
    announce: Callable[[ListenAddress], None],
    tls: TlsFiles | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT, then drain.

    Args:
        application: what answers.
        address: where; port 0 picks a free one.
        settings: limits and times.
        announce: is told what was bound.
        tls: the files; None: in the clear.

    Raises:
        click.ClickException: it cannot listen there, or the files cannot be used.
    """
    stop = asyncio.Event()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(signal_number, stop.set)
    limits = ConnectionLimits.of(settings, is_shared=False)
    server = AsgiServer(
        application, tls, limits, affordable_connections(settings.http.connections_max), is_shared=False
    )
    try:
        bound = await server.start(address)
    except (IdentitySettingsError, ListenAddressError) as error:
        raise click.ClickException(str(error)) from None
    announce(bound)
    await stop.wait()
    await server.stop(settings.timing.drain_s)
