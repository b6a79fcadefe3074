"""`nomemory mcp`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from nomemory.agents.local_data_dir import LocalDataDir, current_user_name
from nomemory.agents.local_server import LocalServer
from nomemory.cli.configuration import load_settings, parse_address
from nomemory.cli.connection import CallError, Target, target_option
from nomemory.client import channel
from nomemory.client.channel import channel_credentials, with_credential
from nomemory.client.errors import NoMemoryError
from nomemory.server.api.identity.tls import TlsFiles
from nomemory.server.runtime.listen_address import ListenAddress

if TYPE_CHECKING:
    from nomemory.mcp.backend import Backend

_TIMEOUT_S: Final = 60.0
_ATTEMPTS: Final = 2
_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command("mcp")
@click.option("--local", is_flag=True, help="Serve your own memory on this machine; no server has to be there.")
@click.option(
    "--user", metavar="ID", help="Whose memory it is; left out where the credentials say it. With --local: you."
)
@click.option(
    "--http",
    type=parse_address,
    metavar="HOST:PORT",
    help="Serve streamable HTTP at /mcp, not standard input and output.",
)
@click.option("--http-cert", type=_FILE, metavar="FILE", help="The certificate for HTTPS (PEM).")
@click.option("--http-key", type=_FILE, metavar="FILE", help="Its key (PEM).")
@target_option
def mcp(
    *,
    local: bool,
    user: str | None,
    http: ListenAddress | None,
    http_cert: Path | None,
    http_key: Path | None,
    target: Target,
) -> None:
    """Serve agents a user's memory as tools of the Model Context Protocol.

    On standard input and output it reads for --user, with the credentials of this command. Over HTTP each request has
    credentials of its own (`authorization`, and `x-user-id` of a service), which are passed on to the server.
    """
    if http is None:
        if http_cert or http_key:
            raise click.UsageError("--http-cert and --http-key go with --http.")
        asyncio.run(_of_this_user(user or current_user_name()) if local else _on_standard_input(target, user))
        return
    if local:
        raise click.UsageError("--local serves on standard input and output: --http does not go with it.")
    if user or target.identity.get("api_key"):
        raise click.UsageError("With --http each request says who it is: --user and --api-key do not go with it.")
    if (http_cert is None) != (http_key is None):
        raise click.UsageError("--http-cert and --http-key go together.")
    tls = TlsFiles(http_cert, http_key, None) if http_cert and http_key else None
    if tls is None and not http.is_loopback():
        raise click.UsageError("Beyond this machine --http needs --http-cert and --http-key: calls carry credentials.")
    asyncio.run(_over_http(target, http, tls))


async def _on_standard_input(target: Target, user: str | None) -> None:
    from nomemory.mcp import stdio  # noqa: PLC0415 - takes long to load
    from nomemory.mcp.credentials import Credential  # noqa: PLC0415 - takes long to load

    credential = Credential(with_credential((), target.identity), user)
    async with _backend(target) as backend:
        await stdio.serve(backend, lambda: backend.bind(credential))


async def _of_this_user(user: str) -> None:
    """Serve the local server's memory. The tools are listed while that is still being started."""
    home = LocalDataDir.for_current_user()
    server = LocalServer(home)
    starting = asyncio.create_task(server.reach())
    starting.add_done_callback(lambda task: task.cancelled() or task.exception())  # the first call meets it, too
    await asyncio.sleep(0)  # it starts while the rest is loaded
    from nomemory.mcp import stdio  # noqa: PLC0415 - takes long to load
    from nomemory.mcp.credentials import trusted  # noqa: PLC0415 - takes long to load

    async with _backend(Target(home.target), server.reach) as backend:
        await stdio.serve(backend, partial(trusted, user))


async def _over_http(target: Target, address: ListenAddress, tls: TlsFiles | None) -> None:
    from nomemory.cli.http_server import serve  # noqa: PLC0415 - loads the server's HTTP
    from nomemory.mcp import http  # noqa: PLC0415 - takes long to load

    settings = load_settings()

    def announce(bound: ListenAddress) -> None:
        click.echo(f"serving {'https' if tls else 'http'}://{bound}{http.PATH}")

    async with _backend(target) as backend:
        # With a certificate of this command the server may let in whoever comes through it.
        if not address.is_loopback() or target.identity.get("tls_cert"):
            await _refuse_unguarded(backend, target)
        async with http.application(backend, on_loopback=address.is_loopback()) as application:
            await serve(application, address, settings, announce, tls)


async def _refuse_unguarded(backend: Backend, target: Target) -> None:
    """Refuse to open a server to others that lets in everybody who reaches it by this command."""
    if await backend.allows_anonymous():
        raise click.ClickException(
            f"The server at {target} asks for no credentials beside this command's own: serve on loopback only, "
            "without a client certificate."
        )


@asynccontextmanager
async def _backend(target: Target, reach: Callable[[], Awaitable[None]] | None = None) -> AsyncIterator[Backend]:
    from nomemory.mcp.backend import Backend  # noqa: PLC0415 - takes long to load

    opened = channel.open_async(target.address, channel_credentials(target.identity), _ATTEMPTS)
    async with opened:
        try:
            yield Backend(opened, _TIMEOUT_S, reach)
        except NoMemoryError as error:
            raise CallError(error, target.address) from None
