"""Serves HTTP for a command until it is told to stop, on the server that `nomemory serve --http` has."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from math import inf

import click

from nomemory.server.identity.credentials import IdentitySettingsError
from nomemory.server.identity.tls import TlsFiles
from nomemory.server.listen_address import ListenAddress, ListenAddressError
from nomemory.server.overload.open_files import affordable_connections
from nomemory.server.settings import Settings
from nomemory.server.web.asgi_server import AsgiApplication, AsgiServer
from nomemory.server.web.connection import ConnectionLimits


async def serve(
    application: AsgiApplication,
    address: ListenAddress,
    settings: Settings,
    announce: Callable[[ListenAddress], None],
    tls: TlsFiles | None = None,
    *,
    body_s: float = inf,
    answer_s: float = inf,
) -> None:
    """Serve until SIGTERM or SIGINT, then drain.

    Args:
        application: what answers.
        address: where; port 0 picks a free one.
        settings: limits and times.
        announce: is told what was bound.
        tls: the files; None: in the clear.
        body_s: how long the body of a request may take.
        answer_s: how long its answer may take, until the client has taken it.

    Raises:
        click.ClickException: it cannot listen there, or the files cannot be used.
    """
    stop = asyncio.Event()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(signal_number, stop.set)
    most = affordable_connections(settings.http.connections_max)
    server = AsgiServer(application, tls, ConnectionLimits(settings, most, body_s=body_s, answer_s=answer_s))
    try:
        bound = await server.start(address)
    except (IdentitySettingsError, ListenAddressError) as error:
        raise click.ClickException(str(error)) from None
    announce(bound)
    await stop.wait()
    await server.stop(settings.timing.drain_s)
