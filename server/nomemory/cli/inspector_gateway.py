"""The HTTP server of `nomemory inspect`."""

from __future__ import annotations

from typing import Final

import click

from nomemory.cli.connection import Target
from nomemory.cli.http_server import run_application
from nomemory.client import channel
from nomemory.client.channel import create_channel_credentials
from nomemory.inspector.gateway import CallForwarder, RequestGuard, make_gateway
from nomemory.server.api.limits import RequestMemoryLimit
from nomemory.server.runtime.listen_address import INSPECTOR, ListenAddress
from nomemory.server.runtime.settings import Settings

_TIMEOUT_S: Final = 60.0
_ATTEMPTS: Final = 2


async def serve_gateway(target: Target, address: ListenAddress, settings: Settings) -> None:
    """Serve the inspector until the process is stopped; print its address."""
    guard = RequestGuard()

    def announce(bound: ListenAddress) -> None:
        guard.set_address(bound)
        click.echo(f"Inspector of {target}. Stop it with Ctrl-C.\nhttp://{bound}{INSPECTOR}#token={guard.token}")

    async with channel.open_asyncio_channel(
        target.address, create_channel_credentials(target.identity), _ATTEMPTS
    ) as opened:
        calls = CallForwarder(guard, opened, target.identity, _TIMEOUT_S, RequestMemoryLimit())
        await run_application(make_gateway(guard, calls), address, settings, announce)
