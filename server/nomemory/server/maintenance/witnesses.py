"""Asks whatever stands beside the log how far the log had come."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from nomemory.server.data_directory import DataDirectory
from nomemory.server.lexical.tantivy.schema import lexical_checkpoint
from nomemory.server.log.position import LogPosition
from nomemory.server.maintenance.loss import LogLostError, Witness, loss_of, read_record
from nomemory.server.vector.collection import vector_checkpoint

_LOST = """\
the message log of {root} has lost changes: {extent}. Put a backup in its place with `nomemory restore`. Or accept the \
loss with `nomemory doctor --data {root} --accept-loss`: then what is left is served, and the indexes are built anew."""


def refuse_loss(directory: DataDirectory, position: Callable[[], LogPosition | None]) -> None:
    """Look for changes that the log has lost.

    Args:
        directory: what stands beside the log.
        position: tells how far the log is.

    Raises:
        LogLostError: it has lost some.
        LogUnusableError: the log cannot be read.
    """
    if extent := known_loss(directory, position):
        raise LogLostError(_LOST.format(root=directory.root, extent=extent))


def known_loss(directory: DataDirectory, position: Callable[[], LogPosition | None]) -> str:
    """Return in words what the log has lost; empty if nothing is known to be.

    Raises:
        LogUnusableError: the log cannot be read.
    """
    witnesses, record = list(_witnesses(directory, position())), read_record(directory.record)
    return loss_of(position(), witnesses, record)  # read last: a server may be writing


def _witnesses(directory: DataDirectory, log: LogPosition | None) -> Iterator[Witness]:
    words = lexical_checkpoint(directory.lexical, log.identity if log else None)
    if words is not None:
        yield Witness("the index of words", words)
    for backlog in sorted(directory.vectors.glob("*/vectors.db")):
        meaning = vector_checkpoint(backlog)
        if meaning is not None:
            yield Witness("the index of meaning", meaning)
