"""The server that a command talks to, how it reaches it, and what it says when that fails."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import click
import grpc

from nomemory.agents.local_data_dir import LocalDataDir
from nomemory.agents.local_server import LocalServerError, ensure
from nomemory.cli.terminal import one_line, printable
from nomemory.client.channel import Identity
from nomemory.client.errors import NoMemoryError
from nomemory.client.sync import Client

_REASON = "ERROR_REASON_"
DEFAULT_TARGET: Final = "127.0.0.1:7700"
LOCAL: Final = "local"
"""Instead of an address: the local server of this user, which is started if it is not there."""
_ADDRESS: Final = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\s:/]+):\d{1,5}|unix:.+|local")
Command = Callable[..., None]
_ATTEMPTS: Final = 2  # somebody is waiting: once more after a hiccup, then say so
_IMPORT_TIMEOUT_S: Final = 600.0  # for one stream of at most 1,000 messages


class CallError(click.ClickException):
    """A call that the server refused, or that reached no server."""

    def __init__(self, error: NoMemoryError, target: str) -> None:
        super().__init__("\n".join(error_lines(error, target)))

    def show(self, file: object = None) -> None:  # noqa: ARG002 - click's signature
        """Print the lines to stderr."""
        click.echo(self.message, err=True)


def error_lines(error: NoMemoryError, target: str) -> Iterator[str]:
    """Say what went wrong: the cause, each bad field on its line, and what to do."""
    if not error.reason:
        yield _without_server(error, target)
        return
    name = error.reason.removeprefix(_REASON).lower().replace("_", " ")
    if error.violations:
        yield f"CallError: {name}"
        yield from (f"  {one_line(v.field)}: {one_line(v.description)}" for v in error.violations)
    else:
        yield f"CallError: {printable(error.message)} ({name})"
    if name == "credentials missing":
        yield "  Give one with --api-key or NOMEMORY_API_KEY."
    if error.retry_after is not None:
        yield f"  Try again in {error.retry_after:g} s."
    if error.code is grpc.StatusCode.INTERNAL and error.request_id:
        yield f"  The server's log tells more about request {one_line(error.request_id)}."


def _without_server(error: NoMemoryError, target: str) -> str:
    match error.code:
        case grpc.StatusCode.UNAVAILABLE:
            return f"No server answers at {target}. Start one with: nomemory serve --listen {target}"
        case grpc.StatusCode.UNIMPLEMENTED:
            return f"What answers at {target} is not this version of a NoMemory server."
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            return f"The server at {target} did not answer in time."
        case _:
            return f"The call to {target} failed: {error.code.name}: {one_line(error.message)}"


@dataclass(frozen=True, slots=True)
class Target:
    """An address as HOST:PORT, and what to show to the server there. As text it is the address."""

    address: str
    identity: Identity = field(default_factory=Identity, repr=False)

    def __str__(self) -> str:
        return self.address


def target_option(command: Command) -> Command:
    """Add --target and the options of the connection, and give the command its `target`."""

    @click.option(
        "--target",
        type=_address,
        metavar="HOST:PORT",
        default=DEFAULT_TARGET,
        show_default=True,
        envvar="NOMEMORY_TARGET",
        show_envvar=True,
        help="The server; `local` is your own on this machine (docs/mcp.md).",
    )
    @click.option(
        "--api-key",
        metavar="KEY",
        envvar="NOMEMORY_API_KEY",
        show_envvar=True,
        help="The key to call it with. The environment keeps it out of the list of processes.",
    )
    @click.option("--tls", is_flag=True, envvar="NOMEMORY_TLS", show_envvar=True, help="Talk TLS.")
    @_file_option("--tls-ca", "NOMEMORY_TLS_CA", "Talk TLS, and trust the authorities in this file (PEM).")
    @_file_option("--tls-client-cert", "NOMEMORY_TLS_CLIENT_CERT", "Talk TLS, and show this certificate (PEM).")
    @_file_option("--tls-client-key", "NOMEMORY_TLS_CLIENT_KEY", "The key of that certificate (PEM).")
    @functools.wraps(command)
    def connected(
        *,
        target: str,
        api_key: str | None,
        tls: bool,
        tls_ca: Path | None,
        tls_client_cert: Path | None,
        tls_client_key: Path | None,
        **others: object,
    ) -> None:
        if (tls_client_cert is None) != (tls_client_key is None):
            raise click.UsageError("--tls-client-cert and --tls-client-key go together.")
        identity = Identity(api_key=api_key, tls=tls, tls_ca=tls_ca, tls_cert=tls_client_cert, tls_key=tls_client_key)
        with local_server() if target == LOCAL else nullcontext(target) as address:
            command(target=Target(address, identity), **others)

    return connected


@contextmanager
def local_server() -> Iterator[str]:
    """Start the local server, unless it is there, and keep it; returns its address.

    Raises:
        click.ClickException: it cannot be started.
    """
    home = LocalDataDir.for_current_user()
    with ExitStack() as use:
        try:
            ensure(home, use)
        except LocalServerError as error:
            raise click.ClickException(error.message) from None
        yield home.target


def client_option(command: Command) -> Command:
    """Add the same options, and give the command a `client` of the server.

    Raises:
        CallError: a call did not succeed.
    """

    @functools.wraps(command)
    def connected(*, target: Target, **others: object) -> None:
        with connect(target) as client:
            command(client=client, **others)

    return target_option(connected)


def _file_option(name: str, variable: str, help_text: str) -> Callable[[Command], Command]:
    return click.option(
        name,
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="FILE",
        envvar=variable,
        show_envvar=True,
        help=help_text,
    )


def _address(text: str) -> str:
    if _ADDRESS.fullmatch(text) is None:
        raise click.BadParameter(f"{text!r} is not of the form HOST:PORT, unix:PATH or local.")
    return text


@contextmanager
def connect(target: Target) -> Iterator[Client]:
    """Open a client for the time of a `with`.

    Raises:
        CallError: a call did not succeed.
    """
    with Client(target.address, attempts=_ATTEMPTS, import_timeout=_IMPORT_TIMEOUT_S, **target.identity) as client:
        try:
            yield client
        except NoMemoryError as error:
            raise CallError(error, target.address) from None
