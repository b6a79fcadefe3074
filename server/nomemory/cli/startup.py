"""Starts the server for `nomemory serve`. Importing this loads the engines."""

from __future__ import annotations

import sqlite3
from functools import partial

import click

from nomemory.server.faults import Fault
from nomemory.server.runtime import app
from nomemory.server.runtime.listen_address import INSPECTOR, Addresses
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.startup_errors import CannotStartError
from nomemory.server.search.lexical.protocol import IndexUnusableError


def run(settings: Settings) -> None:
    """Serve until the process is told to stop.

    Raises:
        click.ClickException: the server cannot start; says why.
    """
    try:
        app.serve(settings, partial(_announce, settings))
    except CannotStartError as error:
        raise click.ClickException(str(error)) from None
    except Fault as fault:
        raise click.ClickException(f"{fault.message}. Its files were left as they are: start again") from None
    except (sqlite3.OperationalError, IndexUnusableError) as error:
        cause = str(error) or "the lexical index cannot be made"
        raise click.ClickException(f"{cause}: {settings.server.data}. Is its disk full, or not writable?") from None


def _announce(settings: Settings, addresses: Addresses) -> None:
    """Print it all at once: whoever has read the first line may close the pipe."""
    scheme = "https" if settings.identity.tls_cert else "http"
    lines = [f"NoMemory serves {addresses}. Stop it with Ctrl-C."]
    if addresses.http:
        lines.append(f"HTTP at {scheme}://{addresses.http}")
        if settings.http.inspector:
            lines.append(f"The inspector at {scheme}://{addresses.http}{INSPECTOR}")
    if addresses.metrics:
        lines.append(f"Metrics at {scheme}://{addresses.metrics}/metrics")
    if not settings.recall.upstream:
        lines.append(f"Its data is in {settings.server.data.resolve()}")
    click.echo("\n".join(lines))
