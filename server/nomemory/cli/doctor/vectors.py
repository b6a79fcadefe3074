"""Checks of the vectors, on disk or on a Qdrant server, against the log."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

from nomemory.cli.output import Check
from nomemory.server.composition.qdrant_check import look_at_collection
from nomemory.server.composition.vector_check import check_vector_index
from nomemory.server.data_directory import DataDirectory, DataDirectoryBusyError, DataDirectoryUnusableError
from nomemory.server.embedding.factory import EmbedderSettingsError
from nomemory.server.faults import Fault
from nomemory.server.settings import Settings

_ON_DISK = "Vectors on disk"
_MENDED = "The server mends it when it starts. Until then its status names the index."
_ON_QDRANT = "Vectors on Qdrant"


def check_vectors(settings: Settings) -> Iterator[Check]:
    """Compare the vector index with the log, if there is one. A running server has the files for itself, and looks."""
    directory = DataDirectory(settings.server.data)
    if not directory.log.exists():
        return
    try:
        lock = directory.lock()
    except (DataDirectoryBusyError, DataDirectoryUnusableError):
        return
    try:
        yield _compared(settings)
    finally:
        os.close(lock)


def mend_vectors(settings: Settings) -> list[str]:
    """Remove the vectors of messages that are gone; return in words what was done. The server mends the rest.

    Raises:
        DataDirectoryBusyError, DataDirectoryUnusableError: a server uses the directory, or it cannot be written.
    """
    lock = DataDirectory(settings.server.data).lock()
    try:
        found = asyncio.run(check_vector_index(settings, removes_orphans=True))
    except (Fault, EmbedderSettingsError) as error:
        return [f"The vectors cannot be read: {error}."]
    finally:
        os.close(lock)
    return [f"The vectors of {found.orphans:,} versions that are gone are removed."] if found and found.orphans else []


def _compared(settings: Settings) -> Check:
    try:
        found = asyncio.run(check_vector_index(settings))
    except (Fault, EmbedderSettingsError) as error:
        return Check(_ON_DISK, "warn", f"cannot be read: {error}", _MENDED)
    if found is None:
        return Check(_ON_DISK, "skip", "no index of this embedder yet")
    if found.is_whole:
        return Check(_ON_DISK, "ok", f"{found.points:,} vectors of {found.messages:,} messages agree with the log")
    finding = (
        f"{found.mismatched:,} of {found.messages:,} messages have other vectors than they should; "
        f"{found.orphans:,} that are gone have some"
    )
    return Check(_ON_DISK, "fail", finding, _MENDED)


def check_qdrant(settings: Settings) -> Iterator[Check]:
    """Check that the Qdrant server of the settings answers, and that its payload indexes know all points."""
    url = settings.vector.qdrant_url
    if url is None:
        return
    try:
        found = asyncio.run(look_at_collection(settings, url))
    except (Fault, EmbedderSettingsError) as error:
        yield Check(_ON_QDRANT, "fail", f"cannot be looked at: {error}", "Check the server, or NOMEMORY_QDRANT_URL.")
        return
    if found is None:
        yield Check(_ON_QDRANT, "skip", "no collection of this embedder yet")
    elif found.lacking:
        finding = f"{found.name}: the index of {', '.join(found.lacking)} lacks points; searches miss messages"
        yield Check(_ON_QDRANT, "fail", finding, "A server rebuilds it when it starts.")
    else:
        yield Check(_ON_QDRANT, "ok", f"{found.name}: {found.points:,} points, which every payload index knows")
