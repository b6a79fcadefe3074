"""`nomemory inspect`."""

from __future__ import annotations

import asyncio
from typing import Final

import click

from nomemory.cli.configuration import load_settings, parse_address
from nomemory.cli.connection import Target, open_client, target_option
from nomemory.cli.http_server import run_application
from nomemory.client import channel
from nomemory.client.channel import create_channel_credentials
from nomemory.inspector.gateway import CallForwarder, RequestGuard, make_gateway
from nomemory.server.api.limits import RequestMemoryLimit
from nomemory.server.runtime.listen_address import INSPECTOR, ListenAddress
from nomemory.server.runtime.settings import Settings

_TIMEOUT_S: Final = 60.0
_ATTEMPTS: Final = 2


@click.command("inspect")
@click.option(
    "--listen",
    type=parse_address,
    metavar="HOST:PORT",
    default="127.0.0.1:0",
    show_default=True,
    help="Loopback address to listen on; port 0 selects a free port.",
)
@target_option
def serve_inspector(*, listen: ListenAddress, target: Target) -> None:
    """Serve the web inspector of a server on this machine.

    Open the printed address in a browser. The page uses the credentials of this command; its calls require the token in
    the address.
    """
    if not listen.is_loopback():
        raise click.UsageError("--listen must be a loopback address, such as 127.0.0.1:0.")
    with open_client(target) as client:
        client.server_info()
    asyncio.run(_serve_inspector(target, listen, load_settings()))


async def _serve_inspector(target: Target, address: ListenAddress, settings: Settings) -> None:
    guard = RequestGuard()

    def announce(bound: ListenAddress) -> None:
        guard.set_address(bound)
        click.echo(f"Inspector of {target}. Stop it with Ctrl-C.\nhttp://{bound}{INSPECTOR}#token={guard.token}")

    async with channel.open_asyncio_channel(
        target.address, create_channel_credentials(target.identity), _ATTEMPTS
    ) as opened:
        calls = CallForwarder(guard, opened, target.identity, _TIMEOUT_S, RequestMemoryLimit())
        await run_application(make_gateway(guard, calls), address, settings, announce)
