"""`nomemory mcp`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from nomemory.agents.local_data_dir import LocalDataDir, read_current_user_name
from nomemory.agents.local_server import LocalServer
from nomemory.cli.configuration import load_settings, parse_address
from nomemory.cli.connection import CallError, Target, target_option
from nomemory.client import channel
from nomemory.client.channel import add_authorization, create_channel_credentials
from nomemory.client.errors import NoMemoryError
from nomemory.server.api.identity.secure_url import is_secure_url
from nomemory.server.api.identity.tls import TlsFiles
from nomemory.server.runtime.listen_address import ListenAddress
from nomemory.server.runtime.settings import Settings

if TYPE_CHECKING:
    from nomemory.mcp.backend import Backend
    from nomemory.mcp.oauth import ProtectedResource

_TIMEOUT_S: Final = 60.0
_ATTEMPTS: Final = 2
_RESOURCE_URL: Final = "NOMEMORY_MCP_RESOURCE_URL"
_AUTHORIZATION_SERVERS: Final = "NOMEMORY_MCP_AUTHORIZATION_SERVERS"
_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command("mcp")
@click.option(
    "--local", is_flag=True, help="Serve the local memory of this machine. Starts the local server if necessary."
)
@click.option(
    "--user",
    metavar="ID",
    help="User id of the memory. Omit it if the credentials determine the user. Default with --local: your user name.",
)
@click.option(
    "--http",
    type=parse_address,
    metavar="HOST:PORT",
    help="Serve streamable HTTP at /mcp instead of standard input and output.",
)
@click.option("--http-cert", type=_FILE, metavar="FILE", help="Certificate file for HTTPS (PEM).")
@click.option("--http-key", type=_FILE, metavar="FILE", help="Private key file of the certificate (PEM).")
@target_option
def serve_mcp(
    *,
    local: bool,
    user: str | None,
    http: ListenAddress | None,
    http_cert: Path | None,
    http_key: Path | None,
    target: Target,
) -> None:
    """Serve the memory of a user as tools of the Model Context Protocol.

    Over standard input and output, every call acts for the user given with --user, and uses the credentials of this
    command. Over HTTP, each request has its own credentials (`authorization`, and `x-user-id` for services), which are
    forwarded to the server.
    """
    if http is None:
        if http_cert or http_key:
            raise click.UsageError("--http-cert and --http-key require --http.")
        asyncio.run(_serve_local_memory(user or read_current_user_name()) if local else _serve_stdio(target, user))
        return
    if local:
        raise click.UsageError("--local serves on standard input and output and cannot be combined with --http.")
    if user or target.identity.get("api_key"):
        raise click.UsageError("With --http, each request has its own credentials: remove --user and --api-key.")
    if (http_cert is None) != (http_key is None):
        raise click.UsageError("--http-cert and --http-key must be used together.")
    tls = TlsFiles(http_cert, http_key, None) if http_cert and http_key else None
    if tls is None and not http.is_loopback():
        raise click.UsageError(
            "--http on a non-loopback address requires --http-cert and --http-key, because calls contain credentials."
        )
    asyncio.run(_serve_http(target, http, tls))


async def _serve_stdio(target: Target, user: str | None) -> None:
    from nomemory.mcp import stdio  # noqa: PLC0415 - slow to import
    from nomemory.mcp.credentials import Credential  # noqa: PLC0415 - slow to import

    settings = load_settings()
    credential = Credential(add_authorization((), target.identity), user)
    async with _open_backend(target) as backend:
        await stdio.serve_stdio(backend, lambda: backend.bind_caller(credential), forget=settings.mcp.forget)


async def _serve_local_memory(user: str) -> None:
    """Serve the memory of the local server. Clients can list the tools while the server is starting."""
    settings = load_settings()
    home = LocalDataDir.for_current_user()
    server = LocalServer(home)
    starting = asyncio.create_task(server.ensure_running())
    # If the server fails to start, the first tool call raises the error.
    starting.add_done_callback(lambda task: task.cancelled() or task.exception())
    await asyncio.sleep(0)  # the server starts while the modules below are imported
    from nomemory.mcp import stdio  # noqa: PLC0415 - slow to import
    from nomemory.mcp.credentials import create_unauthenticated_caller  # noqa: PLC0415 - slow to import

    async with _open_backend(Target(home.target), server.ensure_running) as backend:
        await stdio.serve_stdio(backend, partial(create_unauthenticated_caller, user), forget=settings.mcp.forget)


async def _serve_http(target: Target, address: ListenAddress, tls: TlsFiles | None) -> None:
    from nomemory.cli.http_server import run_application  # noqa: PLC0415 - imports the HTTP server
    from nomemory.mcp import http  # noqa: PLC0415 - slow to import

    settings = load_settings()
    resource = _parse_protected_resource(settings)
    failure: click.ClickException | None = None

    def print_address(bound: ListenAddress) -> None:
        click.echo(f"serving {'https' if tls else 'http'}://{bound}{http.PATH}")

    async with _open_backend(target) as backend:
        # With the client certificate of this command, the server might accept calls from anyone.
        if resource or not address.is_loopback() or target.identity.get("tls_cert"):
            await _require_authentication(backend, target)
        async with http.running_application(
            backend, on_loopback=address.is_loopback(), forget=settings.mcp.forget, resource=resource
        ) as application:
            try:
                await run_application(application, address, settings, print_address, tls)
            except click.ClickException as error:
                failure = error  # raised in here, it would leave the application's task group as an ExceptionGroup
    if failure is not None:
        raise failure


def _parse_protected_resource(settings: Settings) -> ProtectedResource | None:
    """Return the OAuth metadata of the endpoint; None if it is disabled.

    Raises:
        click.UsageError: only one of the two settings is set, or a URL is invalid.
    """
    from nomemory.mcp.oauth import ProtectedResource, is_identifier  # noqa: PLC0415 - slow to import

    url, servers = settings.mcp.resource_url, settings.mcp.authorization_servers.split()
    if bool(url) != bool(servers):
        raise click.UsageError(f"{_RESOURCE_URL} and {_AUTHORIZATION_SERVERS} must be set together.")
    if not url:
        return None
    for setting, identifier in ((_RESOURCE_URL, url), *((_AUTHORIZATION_SERVERS, server) for server in servers)):
        if not (is_secure_url(identifier) and is_identifier(identifier)):
            raise click.UsageError(
                f"{setting}: {identifier} must be an https URL without query and fragment (http only on loopback)."
            )
    values = {"url": url, "authorization_servers": servers, "scopes": settings.mcp.scopes.split()}
    return ProtectedResource.model_validate(values)


async def _require_authentication(backend: Backend, target: Target) -> None:
    """Raise an error if the server accepts calls without the caller's own credentials."""
    if await backend.allows_anonymous_calls():
        raise click.ClickException(
            f"The server at {target} accepts calls without credentials of the caller. Enable authentication, or serve "
            f"on loopback without a client certificate and without {_RESOURCE_URL}."
        )


@asynccontextmanager
async def _open_backend(target: Target, reach: Callable[[], Awaitable[None]] | None = None) -> AsyncIterator[Backend]:
    from nomemory.mcp.backend import Backend  # noqa: PLC0415 - slow to import

    opened = channel.open_asyncio_channel(target.address, create_channel_credentials(target.identity), _ATTEMPTS)
    async with opened:
        try:
            yield Backend(opened, _TIMEOUT_S, reach)
        except NoMemoryError as error:
            raise CallError(error, target.address) from None
