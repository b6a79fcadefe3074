"""`nomemory inspect`."""

from __future__ import annotations

import asyncio
import signal
from typing import Final

import click

from nomemory.cli.configuration import configured
from nomemory.cli.connection import Target, connect, target_option
from nomemory.client import channel
from nomemory.client.options import channel_credentials
from nomemory.inspector.gateway import Forwarding, Guard, gateway
from nomemory.server.identity.half_configuration import IdentitySettingsError
from nomemory.server.listen_address import INSPECTOR, ListenAddress, ListenAddressError, parse_listen_address
from nomemory.server.overload.connections import affordable_connections
from nomemory.server.settings import Settings
from nomemory.server.web.asgi_server import AsgiServer
from nomemory.server.web.connection import ConnectionLimits

_TIMEOUT_S: Final = 60.0
_ATTEMPTS: Final = 2
_DRAIN_S: Final = 1.0


@click.command("inspect")
@click.option(
    "--listen",
    metavar="HOST:PORT",
    default="127.0.0.1:0",
    show_default=True,
    help="Where on this machine; port 0 picks a free one.",
)
@target_option
def inspect(*, listen: str, target: Target) -> None:
    """Look into a server: serve its inspector on this machine until it is told to stop.

    Open the address that it prints. The page reads with the credentials of this command; calls need the token in the
    address.
    """
    address = _address(listen)
    with connect(target) as client:
        client.server_info()
    asyncio.run(_serve(target, address, configured()))


def _address(listen: str) -> ListenAddress:
    try:
        address = parse_listen_address(listen)
    except ListenAddressError as error:
        raise click.UsageError(f"--listen: {error}") from None
    if not address.is_loopback():
        raise click.UsageError("--listen: the inspector is for this machine only, such as 127.0.0.1:0.")
    return address


async def _serve(target: Target, address: ListenAddress, settings: Settings) -> None:
    stop = asyncio.Event()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(signal_number, stop.set)
    async with channel.open_async(target.address, channel_credentials(target.identity), _ATTEMPTS) as opened:
        guard = Guard()
        forwarding = Forwarding(guard, opened, target.identity, _TIMEOUT_S, settings.timing.deadline_default_s)
        limits = ConnectionLimits(settings, affordable_connections(settings.http.connections_max))
        server = AsgiServer(gateway(guard, forwarding, settings), None, limits)
        try:
            bound = await server.start(address)
        except (IdentitySettingsError, ListenAddressError) as error:
            raise click.ClickException(str(error)) from None
        guard.stand_at(bound)
        click.echo(f"The inspector of {target}. Stop it with Ctrl-C.\nhttp://{bound}{INSPECTOR}#token={guard.token}")
        await stop.wait()
        await server.stop(_DRAIN_S)
