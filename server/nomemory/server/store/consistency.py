"""Detect that the log has lost changes which something beside it has seen, and accept the loss for the operator.

The record (`log.json`) says which log a data directory has, and how far it was when a server last looked. It stands
beside the log, so that a log that is gone, or older than it was, is noticed. The indexes are evidence, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from nomemory.server.runtime.data_directory import DataDirectory
from nomemory.server.runtime.startup_errors import StartupError
from nomemory.server.search.lexical.tantivy.schema import lexical_checkpoint
from nomemory.server.search.semantic.collection_state import vector_checkpoint
from nomemory.server.store.log_record import read_record, write_record
from nomemory.server.store.position import Checkpoint, LogPosition


class LogLostError(StartupError):
    """The log has lost changes; the text says how many and what to do."""


class LogFollower(NamedTuple):
    """Something that has followed the log, by what people call it."""

    name: str
    saw: Checkpoint


def describe_loss(log: LogPosition | None, witnesses: Iterable[LogFollower], record: Checkpoint | None) -> str:
    """Return in words what the log has lost; empty if nothing is known to be.

    An index of another log or epoch is no witness: it is built anew. The record of another is, because whoever
    restores a log or accepts a loss writes the record.

    Args:
        log: what there is; None: no log.
        witnesses: the indexes.
        record: what was recorded of the log, if anything.
    """
    furthest = max(_against(log, witnesses, record), key=lambda witness: witness.saw.sequence, default=None)
    if log is None:
        return "" if furthest is None else f"it is gone, and {_seen(furthest)}"
    if record is not None and record.sequence and not record.is_of(log.identity):
        return f"it is another log than the one that was here, which had come to change {record.sequence:,}"
    if furthest is None or furthest.saw.sequence <= log.sequence:
        return ""
    lost = furthest.saw.sequence - log.sequence
    return f"it ends at change {log.sequence:,}, but {_seen(furthest)}: {lost:,} changes or more are lost"


def _against(log: LogPosition | None, witnesses: Iterable[LogFollower], record: Checkpoint | None) -> list[LogFollower]:
    heard = [witness for witness in witnesses if log is None or witness.saw.is_of(log.identity)]
    recorded = [] if record is None else [LogFollower("the server", record)]
    return [witness for witness in (*heard, *recorded) if log is not None or witness.saw.sequence]


def _seen(witness: LogFollower) -> str:
    return f"{witness.name} had come to change {witness.saw.sequence:,}"


_LOST = """\
the message log of {root} has lost changes: {extent}. Put a backup in its place with `nomemory restore`. Or accept the \
loss with `nomemory doctor --data {root} --accept-loss`: then what is left is served, and the indexes are built anew."""


def ensure_no_loss(directory: DataDirectory, position: Callable[[], LogPosition | None]) -> None:
    """Look for changes that the log has lost.

    Args:
        directory: what stands beside the log.
        position: tells how far the log is.

    Raises:
        LogLostError: it has lost some.
        LogUnusableError: the log cannot be read.
    """
    if extent := find_loss(directory, position):
        raise LogLostError(_LOST.format(root=directory.root, extent=extent))


def find_loss(directory: DataDirectory, position: Callable[[], LogPosition | None]) -> str:
    """Return in words what the log has lost; empty if nothing is known to be.

    Raises:
        LogUnusableError: the log cannot be read.
    """
    witnesses, record = list(_witnesses(directory, position())), read_record(directory.record)
    return describe_loss(position(), witnesses, record)  # read last: a server may be writing


def _witnesses(directory: DataDirectory, log: LogPosition | None) -> Iterator[LogFollower]:
    words = lexical_checkpoint(directory.lexical, log.identity if log else None)
    if words is not None:
        yield LogFollower("the index of words", words)
    for backlog in sorted(directory.vectors.glob("*/vectors.db")):
        meaning = vector_checkpoint(backlog)
        if meaning is not None:
            yield LogFollower("the index of meaning", meaning)


def accept_loss(directory: DataDirectory, begin_epoch: Callable[[], LogPosition]) -> LogPosition:
    """Begin a new epoch of the log as it is, or a new log where there is none; indexes are built anew from it.

    Args:
        directory: the server's.
        begin_epoch: begins it.

    Raises:
        DataDirectoryBusyError: a server uses the directory.
        LogUnusableError, LogVersionError: the log cannot be used.
        OSError: the record cannot be written.
    """
    with directory.lock():
        log = begin_epoch()
        write_record(directory.record, log)
    return log
