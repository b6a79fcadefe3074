"""Waits until the indexes have caught up with the log."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from nomemory.v1 import ingest_service_pb2

_POLL_S: Final = 0.25

Status = ingest_service_pb2.GetIndexStatusResponse


def wait(ask: Callable[[], Status], timeout_s: float, tell: Callable[[int], None]) -> bool:
    """Wait until everything that the log holds now is indexed.

    Args:
        ask: gets the status.
        timeout_s: seconds after which to give up.
        tell: is told after each look how many messages are known to be pending.

    Returns:
        Whether the indexes got there before the time was up.
    """
    give_up = time.monotonic() + timeout_s
    status = ask()
    sequence = status.log.sequence
    while _is_behind(status, sequence):
        tell(_pending(status))
        if time.monotonic() >= give_up:
            return False
        time.sleep(_POLL_S)
        status = ask()
    tell(0)
    return True


def _is_behind(status: Status, sequence: int) -> bool:
    """Return whether an index still lacks a change up to a sequence, even one that it has not counted yet.

    A caller in a namespace is told no sequences: then nothing may be pending.
    """
    return any(index.checkpoint < sequence if sequence else index.pending for index in _indexes(status))


def _pending(status: Status) -> int:
    return max(index.pending for index in _indexes(status))


def _indexes(status: Status) -> list[ingest_service_pb2.IndexStatus]:
    """Return the indexes to wait for. Without an embedder only words are indexed."""
    return [status.lexical] if status.embedder.kind == "none" else [status.lexical, status.vector]
