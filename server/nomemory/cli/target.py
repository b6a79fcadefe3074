"""The server that a command talks to, and how."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import click

from nomemory.client.identity import Identity

DEFAULT_TARGET: Final = "127.0.0.1:7700"
_ADDRESS: Final = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\s:/]+):\d{1,5}")

Command = Callable[..., None]


@dataclass(frozen=True, slots=True)
class Target:
    """An address as HOST:PORT, and what to show to the server there. As text it is the address."""

    address: str
    identity: Identity = field(default_factory=Identity, repr=False)

    def __str__(self) -> str:
        return self.address


def target_option(command: Command) -> Command:
    """Add --target and the options of the connection, and give the command its `target`."""
    return address_options(DEFAULT_TARGET, "NOMEMORY_TARGET", "The server.")(command)


def address_options(default: str, variable: str, help_text: str) -> Callable[[Command], Command]:
    """Return what adds --target, for an address of some kind, and the options of the connection."""
    target = click.option(
        "--target",
        type=_address,
        metavar="HOST:PORT",
        default=default,
        show_default=True,
        envvar=variable,
        show_envvar=True,
        help=help_text,
    )
    return lambda command: target(_connected(command))


def _connected(command: Command) -> Command:
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
        command(target=Target(target, identity), **others)

    return connected


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
        raise click.BadParameter(f"{text!r} is not of the form HOST:PORT.")
    return text
