"""`nomemory inspect`."""

from __future__ import annotations

import asyncio

import click

from nomemory.cli.configuration import load_settings, parse_address
from nomemory.cli.connection import Target, open_client, target_option
from nomemory.server.runtime.listen_address import ListenAddress


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
    from nomemory.cli.inspector_gateway import serve_gateway  # noqa: PLC0415 - imports the HTTP server

    if not listen.is_loopback():
        raise click.UsageError("--listen must be a loopback address, such as 127.0.0.1:0.")
    with open_client(target) as client:
        client.server_info()
    asyncio.run(serve_gateway(target, listen, load_settings()))
