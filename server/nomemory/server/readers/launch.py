"""Starts readers. It needs next to nothing itself, so that they can load while the writer's process loads."""

from __future__ import annotations

from collections.abc import Mapping

from nomemory.server.processes.launch import Launch, Started
from nomemory.server.settings import Settings

_MODULE = "nomemory.server.composition.reader"


def start_reader(number: int) -> Started:
    """Start the reader of that number. It waits for its assignment, and ends when the pipe is closed.

    Raises:
        WorkerUnavailableError: the system refuses.
    """
    return Launch(_MODULE, (str(number),), logs=True).start()


def start_readers(settings: Settings) -> Mapping[int, Started]:
    """Start all the readers that the settings ask for; return them by their numbers.

    Raises:
        WorkerUnavailableError: the system refuses.
    """
    return {number: start_reader(number) for number in reader_numbers(settings)}


def reader_numbers(settings: Settings) -> range:
    """Return the numbers of the readers; the writer has 0. A server that only recalls is one process."""
    return range(1, 1 if settings.recall.query_target else settings.workers.count)


def reader_name(number: int) -> str:
    """Return what a reader is called in faults and metrics."""
    return f"reader-{number}"
