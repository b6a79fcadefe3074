"""Brings messages into a server, the way that callers do, until they can be found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from nomemory.client.sync import Client
from nomemory.evaluation.labelled_file import LabelledDataError, fault
from nomemory.importing.record import Accepted
from nomemory.importing.upload import Upload, wait_until_indexed

INDEXING_MAX_S: Final = 3 * 3600.0
"""How long the indexes may take: every text has to be embedded once, at 20 a second or so."""


class IndexesBehindError(Exception):
    """The indexes did not catch up in time."""


def load(client: Client, path: Path, messages: Sequence[Accepted]) -> None:
    """Store messages.

    Args:
        client: the server's.
        path: the file that they come from.
        messages: those of it.

    Raises:
        LabelledDataError: the server refuses some; it names their lines.
        NoMemoryError: the server does not answer.
    """
    faults: list[str] = []
    upload = Upload(client.import_messages, lambda refused, reasons: faults.append(fault(path, refused, reasons)))
    for _ in upload.run(messages):
        pass
    if faults:
        raise LabelledDataError(faults)


def wait_for_indexes(client: Client, tell: Callable[[int], None] = lambda _: None) -> None:
    """Wait until everything can be found; without an embedder that is: by words.

    Args:
        client: the server's.
        tell: is told now and then how many messages are left.

    Raises:
        IndexesBehindError: they take longer than `INDEXING_MAX_S`.
        NoMemoryError: the server does not answer.
    """
    if not wait_until_indexed(client.status, INDEXING_MAX_S, tell):
        raise IndexesBehindError("the indexes did not catch up")
