"""Check the vectors on disk against the message log."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress

from nomemory.cli.output import Check
from nomemory.server.faults import Fault
from nomemory.server.runtime.data_directory import DataDirectory, DataDirectoryBusyError, DataDirectoryUnusableError
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.startup_errors import StartupError
from nomemory.server.runtime.wiring.vector_check import check_vector_index

_ON_DISK = "Vectors on disk"


_MENDED = "The server mends it when it starts. Until then its status names the index."


def check_vectors(settings: Settings) -> Iterator[Check]:
    """Compare the vector index with the log, if there is one. A running server has the files for itself, and looks."""
    directory = DataDirectory(settings.server.data)
    if not directory.log.exists():
        return
    with suppress(DataDirectoryBusyError, DataDirectoryUnusableError), directory.lock():
        yield _compared(settings)


def _compared(settings: Settings) -> Check:
    try:
        found = asyncio.run(check_vector_index(settings))
    except (Fault, StartupError) as error:
        return Check(_ON_DISK, "warn", f"cannot be read: {error}", _MENDED)
    if found is None:
        return Check(_ON_DISK, "skip", "no index of this embedder yet")
    if found.is_consistent:
        return Check(_ON_DISK, "ok", f"{found.points:,} vectors of {found.messages:,} messages agree with the log")
    finding = (
        f"{found.mismatched:,} of {found.messages:,} messages have other vectors than they should; "
        f"{found.orphans:,} that are gone have some"
    )
    return Check(_ON_DISK, "fail", finding, _MENDED)
