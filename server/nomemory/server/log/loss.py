"""Finds out whether the log has lost changes that something beside it has seen."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from nomemory.server.log.identity import Checkpoint, LogPosition


class LogLostError(Exception):
    """The log has lost changes; the text says how many and what to do."""


class Witness(NamedTuple):
    """Something that has followed the log, by what people call it."""

    name: str
    saw: Checkpoint


def loss_of(log: LogPosition | None, witnesses: Iterable[Witness], record: Checkpoint | None) -> str:
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


def _against(log: LogPosition | None, witnesses: Iterable[Witness], record: Checkpoint | None) -> list[Witness]:
    heard = [witness for witness in witnesses if log is None or witness.saw.is_of(log.identity)]
    recorded = [] if record is None else [Witness("the server", record)]
    return [witness for witness in (*heard, *recorded) if log is not None or witness.saw.sequence]


def _seen(witness: Witness) -> str:
    return f"{witness.name} had come to change {witness.saw.sequence:,}"
