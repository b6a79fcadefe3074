"""Asks whatever stands beside the log how far the log had come."""

from __future__ import annotations

from collections.abc import Iterator

from nomemory.server.data_directory import DataDirectory
from nomemory.server.lexical.tantivy_schema import lexical_checkpoint
from nomemory.server.log.identity import LogPosition
from nomemory.server.log.loss import LogLostError, Witness, loss_of
from nomemory.server.log.record import read_record
from nomemory.server.log.sqlite_schema import position_at
from nomemory.server.vector.checkpoint import vector_checkpoint

_LOST = """\
the message log {path} has lost changes: {extent}. Put a backup in its place with `nomemory restore`. Or accept the \
loss with `nomemory doctor --data {root} --accept-loss`: then what is left is served, and the indexes are built anew."""


def refuse_loss(directory: DataDirectory) -> None:
    """Look for changes that the log has lost. Nothing is changed.

    Raises:
        LogLostError: it has lost some.
        LogUnusableError: the log cannot be read.
    """
    if extent := known_loss(directory):
        raise LogLostError(_LOST.format(path=directory.log, root=directory.root, extent=extent))


def known_loss(directory: DataDirectory) -> str:
    """Return in words what the log has lost; empty if nothing is known to be.

    Raises:
        LogUnusableError: the log cannot be read.
    """
    witnesses, record = list(_witnesses(directory, position_at(directory.log))), read_record(directory.record)
    return loss_of(position_at(directory.log), witnesses, record)  # read last: a server may be writing


def _witnesses(directory: DataDirectory, log: LogPosition | None) -> Iterator[Witness]:
    words = lexical_checkpoint(directory.lexical, log.identity if log else None)
    if words is not None:
        yield Witness("the index of words", words)
    for backlog in sorted(directory.vectors.glob("*/vectors.db")):
        meaning = vector_checkpoint(backlog)
        if meaning is not None:
            yield Witness("the index of meaning", meaning)
