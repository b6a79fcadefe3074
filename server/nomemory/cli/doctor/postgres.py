"""Checks of a message log in PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from nomemory.cli.check import Check
from nomemory.server.composition.log_store import log_store
from nomemory.server.data_directory import DataDirectory
from nomemory.server.log.protocol import LogUnusableError, LogVersionError
from nomemory.server.maintenance.loss import known_loss
from nomemory.server.settings import Settings

IN_POSTGRES: Final = "the message log is in PostgreSQL (NOMEMORY_LOG), and {what}"
"""What a command says that works on a log in a file."""


def check_postgres(settings: Settings) -> Iterator[Check]:
    """Check that the log can be read, and that it has all that this server's indexes have seen."""
    directory = DataDirectory(settings.server.data)
    try:
        store = log_store(settings, directory)
        log, lost = store.position(), known_loss(directory, store.position)
    except (LogUnusableError, LogVersionError) as error:
        yield Check("Message log", "fail", str(error), "See to the database, or to NOMEMORY_LOG.")
        return
    sequence = log.sequence if log else 0
    yield Check("Message log", "ok", f"in PostgreSQL, up to change {sequence:,}; its pages are the database's to check")
    if lost:
        advice = "Restore the database. Or accept the loss: nomemory doctor --accept-loss."
        yield Check("Message log's history", "fail", f"it has lost changes: {lost}", advice)
    else:
        yield Check("Message log's history", "ok", "nothing is known to be lost")
