"""Run the server for `nomemory serve`. Importing this module loads the search engines."""

from __future__ import annotations

import sqlite3
from functools import partial

import click

from nomemory.server.faults import Fault
from nomemory.server.runtime import app
from nomemory.server.runtime.listen_address import INSPECTOR, ListenAddresses
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.startup_errors import StartupError
from nomemory.server.search.lexical.protocol import IndexUnusableError
from nomemory.server.store.postgres.display_url import redact_database_url


def run_server(settings: Settings) -> None:
    """Serve until the process is stopped.

    Raises:
        click.ClickException: the server cannot start.
    """
    try:
        app.serve(settings, partial(_print_addresses, settings))
    except StartupError as error:
        raise click.ClickException(str(error)) from None
    except Fault as fault:
        raise click.ClickException(f"{fault.message}. No files were changed; start the server again") from None
    except (sqlite3.OperationalError, IndexUnusableError) as error:
        cause = str(error) or "the lexical index cannot be created"
        raise click.ClickException(
            f"{cause}: {settings.server.data}. Check that the disk is writable and has free space"
        ) from None


def _print_addresses(settings: Settings, addresses: ListenAddresses) -> None:
    """Print the addresses in one write, because the reader may close the pipe after the first line."""
    scheme = "https" if settings.identity.tls_cert else "http"
    lines = [f"NoMemory is serving at {addresses}. Stop it with Ctrl-C."]
    if addresses.http:
        lines.append(f"HTTP at {scheme}://{addresses.http}")
        if settings.http.inspector:
            lines.append(f"Inspector at {scheme}://{addresses.http}{INSPECTOR}")
    if addresses.metrics:
        lines.append(f"Metrics at {scheme}://{addresses.metrics}/metrics")
    if not settings.recall.upstream:
        lines.append(_describe_storage(settings))
    click.echo("\n".join(lines))


def _describe_storage(settings: Settings) -> str:
    """Return the line of the startup message that states the data directory or the database."""
    if settings.server.database_url is None:
        return f"Data directory: {settings.server.data.resolve()}"
    return f"Message log: {redact_database_url(settings.server.database_url.get_secret_value())}"
