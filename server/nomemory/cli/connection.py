"""Connection options, the API client, and error messages for failed calls."""

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
from nomemory.agents.local_server import LocalServerError, ensure_running
from nomemory.cli.terminal import replace_control_characters, to_single_line
from nomemory.client.channel import ClientCredentials
from nomemory.client.errors import NoMemoryError
from nomemory.client.sync import Client

_REASON_PREFIX = "ERROR_REASON_"
DEFAULT_TARGET: Final = "127.0.0.1:7700"
LOCAL: Final = "local"
"""Target value for the local server of the current user, which is started on demand."""
_ADDRESS: Final = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\s:/]+):\d{1,5}|unix:.+|local")
Command = Callable[..., None]
_ATTEMPTS: Final = 2  # interactive use: fail fast, after one retry
_IMPORT_TIMEOUT_S: Final = 600.0  # the timeout of one stream of at most 1,000 messages


class CallError(click.ClickException):
    """Raised if a call fails or the server cannot be reached."""

    def __init__(self, error: NoMemoryError, target: str) -> None:
        super().__init__("\n".join(format_error_lines(error, target)))

    def show(self, file: object = None) -> None:  # noqa: ARG002 - click's signature
        """Print the error message to standard error."""
        click.echo(self.message, err=True)


def format_error_lines(error: NoMemoryError, target: str) -> Iterator[str]:
    """Yield the lines of an error message: the cause, each invalid field, and what to do."""
    if not error.reason:
        yield _describe_transport_error(error, target)
        return
    name = error.reason.removeprefix(_REASON_PREFIX).lower().replace("_", " ")
    if error.violations:
        yield f"Error: {name}"
        yield from (f"  {to_single_line(v.field)}: {to_single_line(v.description)}" for v in error.violations)
    else:
        yield f"Error: {replace_control_characters(error.message)} ({name})"
    if name == "credentials missing":
        yield "  Set them with --api-key or NOMEMORY_API_KEY."
    if error.retry_after is not None:
        yield f"  Retry in {error.retry_after:g} s."
    if error.code is grpc.StatusCode.INTERNAL and error.request_id:
        yield f"  See the server's log for request {to_single_line(error.request_id)}."


def _describe_transport_error(error: NoMemoryError, target: str) -> str:
    match error.code:
        case grpc.StatusCode.UNAVAILABLE:
            return f"No server is running at {target}. Start one with: nomemory serve --listen {target}"
        case grpc.StatusCode.UNIMPLEMENTED:
            return f"The server at {target} is not a NoMemory server of this version."
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            return f"The call to {target} timed out."
        case _:
            return f"The call to {target} failed: {error.code.name}: {to_single_line(error.message)}"


@dataclass(frozen=True, slots=True)
class Target:
    """A server address with credentials. Formatting a target as a string returns its address."""

    address: str
    identity: ClientCredentials = field(default_factory=ClientCredentials, repr=False)

    def __str__(self) -> str:
        return self.address


def target_option(command: Command) -> Command:
    """Add --target and the connection options, and pass `target` to the command."""

    @click.option(
        "--target",
        type=_parse_target,
        metavar="HOST:PORT",
        default=DEFAULT_TARGET,
        show_default=True,
        envvar="NOMEMORY_TARGET",
        show_envvar=True,
        help="Server address, or `local` for your own server on this machine (docs/mcp.md).",
    )
    @click.option(
        "--api-key",
        metavar="KEY",
        envvar="NOMEMORY_API_KEY",
        show_envvar=True,
        help="API key. Prefer the environment variable: arguments are visible in the process list.",
    )
    @click.option("--tls", is_flag=True, envvar="NOMEMORY_TLS", show_envvar=True, help="Use TLS.")
    @_file_option("--tls-ca", "NOMEMORY_TLS_CA", "CA certificates to trust (PEM). Implies TLS.")
    @_file_option("--tls-client-cert", "NOMEMORY_TLS_CLIENT_CERT", "Client certificate (PEM). Implies TLS.")
    @_file_option("--tls-client-key", "NOMEMORY_TLS_CLIENT_KEY", "Private key of the client certificate (PEM).")
    @functools.wraps(command)
    def wrapper(
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
            raise click.UsageError("--tls-client-cert and --tls-client-key must be used together.")
        identity = ClientCredentials(
            api_key=api_key, tls=tls, tls_ca=tls_ca, tls_cert=tls_client_cert, tls_key=tls_client_key
        )
        with running_local_server() if target == LOCAL else nullcontext(target) as address:
            command(target=Target(address, identity), **others)

    return wrapper


@contextmanager
def running_local_server() -> Iterator[str]:
    """Start the local server if necessary, keep it running, and yield its address.

    Raises:
        click.ClickException: the server cannot be started.
    """
    local_data = LocalDataDir.for_current_user()
    with ExitStack() as lease:
        try:
            ensure_running(local_data, lease)
        except LocalServerError as error:
            raise click.ClickException(error.message) from None
        yield local_data.target


def client_option(command: Command) -> Command:
    """Add the options of `target_option`, and pass a connected `client` to the command.

    Raises:
        CallError: a call failed.
    """

    @functools.wraps(command)
    def wrapper(*, target: Target, **others: object) -> None:
        with open_client(target) as client:
            command(client=client, **others)

    return target_option(wrapper)


def _file_option(name: str, variable: str, help_text: str) -> Callable[[Command], Command]:
    return click.option(
        name,
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="FILE",
        envvar=variable,
        show_envvar=True,
        help=help_text,
    )


def _parse_target(text: str) -> str:
    if _ADDRESS.fullmatch(text) is None:
        raise click.BadParameter(f"{text!r} is not HOST:PORT, unix:PATH or local.")
    return text


@contextmanager
def open_client(target: Target) -> Iterator[Client]:
    """Open a client for the duration of a `with` block.

    Raises:
        CallError: a call failed.
    """
    with Client(target.address, attempts=_ATTEMPTS, import_timeout=_IMPORT_TIMEOUT_S, **target.identity) as client:
        try:
            yield client
        except NoMemoryError as error:
            raise CallError(error, target.address) from None
