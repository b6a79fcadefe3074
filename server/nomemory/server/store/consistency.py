"""Detect that the message log has lost changes, and start a new epoch when the operator accepts the loss.

The record `log.json` in the data directory contains the identity and the last known sequence number of the message
log. A message log that is missing, or that is behind its record or an index, has lost changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from nomemory.server.runtime.data_directory import DataDirectory
from nomemory.server.runtime.startup_errors import StartupError
from nomemory.server.search.lexical.tantivy.schema import read_lexical_checkpoint
from nomemory.server.search.semantic.collection_state import read_vector_checkpoint
from nomemory.server.store.log_position_file import read_position_file, write_position_file
from nomemory.server.store.position import Checkpoint, LogPosition


class LogLostError(StartupError):
    """The message log has lost changes. The error message states how many changes are lost and what to do."""


class LogFollower(NamedTuple):
    """An index or a record that follows the message log, with its display name and checkpoint."""

    name: str
    checkpoint: Checkpoint


def describe_loss(log: LogPosition | None, followers: Iterable[LogFollower], record: Checkpoint | None) -> str:
    """Describe the changes that the message log has lost; return an empty string if there is no evidence of a loss.

    Indexes of another message log or epoch are ignored, because they will be rebuilt. A record of another message log
    or epoch is evidence of a loss, because restoring a backup and accepting a loss both update the record.

    Args:
        log: the position of the message log; None if there is no log.
        followers: the checkpoints of the indexes.
        record: the checkpoint in `log.json`; None if the file is missing or malformed.
    """
    furthest = max(
        _select_followers(log, followers, record), key=lambda follower: follower.checkpoint.sequence, default=None
    )
    if log is None:
        return "" if furthest is None else f"it is missing, and {_describe_checkpoint(furthest)}"
    if record is not None and record.sequence and not record.matches_log(log.identity):
        return f"it is not the log that was recorded here, which had reached change {record.sequence:,}"
    if furthest is None or furthest.checkpoint.sequence <= log.sequence:
        return ""
    lost = furthest.checkpoint.sequence - log.sequence
    return (
        f"it ends at change {log.sequence:,}, but {_describe_checkpoint(furthest)}: at least {lost:,} changes are lost"
    )


def _select_followers(
    log: LogPosition | None, followers: Iterable[LogFollower], record: Checkpoint | None
) -> list[LogFollower]:
    same_log = [follower for follower in followers if log is None or follower.checkpoint.matches_log(log.identity)]
    recorded = [] if record is None else [LogFollower("the server", record)]
    return [follower for follower in (*same_log, *recorded) if log is not None or follower.checkpoint.sequence]


def _describe_checkpoint(follower: LogFollower) -> str:
    return f"{follower.name} had reached change {follower.checkpoint.sequence:,}"


_LOST = """\
the message log of {root} has lost changes: {extent}. Restore a backup with `nomemory restore`, or accept the loss \
with `nomemory doctor --data {root} --accept-loss`: the server then continues with the remaining messages and rebuilds \
the indexes."""


def ensure_no_loss(directory: DataDirectory, position: Callable[[], LogPosition | None]) -> None:
    """Raise if the message log of a data directory has lost changes; `position` returns the position of the log.

    Raises:
        LogLostError: the message log has lost changes.
        LogUnusableError: the message log cannot be read.
    """
    if extent := describe_current_loss(directory, position):
        raise LogLostError(_LOST.format(root=directory.root, extent=extent))


def describe_current_loss(directory: DataDirectory, position: Callable[[], LogPosition | None]) -> str:
    """Describe the changes that the message log has lost; return an empty string if there is no evidence of a loss.

    Raises:
        LogUnusableError: the message log cannot be read.
    """
    followers, record = list(_read_followers(directory, position())), read_position_file(directory.log_position_file)
    return describe_loss(position(), followers, record)  # read last: a server may be writing


def _read_followers(directory: DataDirectory, log: LogPosition | None) -> Iterator[LogFollower]:
    lexical = read_lexical_checkpoint(directory.lexical_index, log.identity if log else None)
    if lexical is not None:
        yield LogFollower("the lexical index", lexical)
    for backlog in sorted(directory.vector_collections.glob("*/vectors.db")):
        vector = read_vector_checkpoint(backlog)
        if vector is not None:
            yield LogFollower("the vector index", vector)


def accept_loss(directory: DataDirectory, begin_epoch: Callable[[], LogPosition]) -> LogPosition:
    """Start a new epoch with `begin_epoch`, and record the new position of the message log in the data directory.

    The indexes are rebuilt at the next start of the server.

    Raises:
        DataDirectoryBusyError: a server uses the directory.
        LogUnusableError, LogVersionError: the message log cannot be opened.
        OSError: the record cannot be written.
    """
    with directory.lock():
        log = begin_epoch()
        write_position_file(directory.log_position_file, log)
    return log
