"""Starts the server for `nomemory serve`. Importing this loads the engines."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

import click

from nomemory.server import app
from nomemory.server.composition.startup_errors import CANNOT_START
from nomemory.server.lexical.protocol import IndexUnusableError
from nomemory.server.listen_address import ListenAddress
from nomemory.server.processes.launch import Started
from nomemory.server.settings import Settings


def run(settings: Settings, readers: Mapping[int, Started]) -> None:
    """Serve until the process is told to stop.

    Args:
        settings: the configuration.
        readers: the processes that serve beside this one; they are loading, too.

    Raises:
        click.ClickException: the server cannot start; says why.
    """
    try:
        app.serve(settings, _announce, readers)
    except CANNOT_START as error:
        raise click.ClickException(str(error)) from None
    except (sqlite3.OperationalError, IndexUnusableError) as error:
        cause = str(error) or "the lexical index cannot be made"
        raise click.ClickException(f"{cause}: {settings.server.data}. Is its disk full, or not writable?") from None


def _announce(address: ListenAddress) -> None:
    click.echo(f"NoMemory serves {address}. Stop it with Ctrl-C.")
