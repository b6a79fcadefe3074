"""`nomemory mcp --http`: the protocol on the HTTP server that `nomemory serve --http` has, with its limits."""

from __future__ import annotations

import asyncio
import signal

import click

from nomemory.cli.configuration import configured
from nomemory.mcp import http
from nomemory.mcp.memory import Memory
from nomemory.server.identity.half_configuration import IdentitySettingsError
from nomemory.server.identity.tls import TlsFiles
from nomemory.server.listen_address import ListenAddress, ListenAddressError
from nomemory.server.overload.connections import affordable_connections
from nomemory.server.settings import Settings
from nomemory.server.web.asgi_server import AsgiApplication, AsgiServer
from nomemory.server.web.connection import ConnectionLimits


async def serve(memory: Memory, address: ListenAddress, tls: TlsFiles | None, call_s: float) -> None:
    """Serve until SIGTERM or SIGINT, then drain.

    Args:
        memory: the server behind the tools.
        address: where; on loopback only pages and names of this machine are let in.
        tls: the files; None: in the clear.
        call_s: how long a call of that server may take.

    Raises:
        click.ClickException: it cannot listen there, the files cannot be used, or a setting is not valid.
    """
    stop = asyncio.Event()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(signal_number, stop.set)
    settings = configured()
    async with http.application(memory, on_loopback=address.is_loopback()) as application:
        server = _server(application, tls, settings, call_s)
        try:
            bound = await server.start(address)
        except (IdentitySettingsError, ListenAddressError) as error:
            raise click.ClickException(str(error)) from None
        click.echo(f"serving {'https' if tls else 'http'}://{bound}{http.PATH}")
        await stop.wait()
        await server.stop(settings.timing.drain_s)


def _server(application: AsgiApplication, tls: TlsFiles | None, settings: Settings, call_s: float) -> AsgiServer:
    most, body_s = affordable_connections(settings.http.connections_max), settings.timing.deadline_default_s
    answer_s = call_s + settings.connections.unread_s
    return AsgiServer(application, tls, ConnectionLimits(settings, most, body_s=body_s, answer_s=answer_s))
