"""Starts readers. It needs next to nothing itself, so that they can load while the writer's process loads."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Mapping

from nomemory.server.processes.worker_process import Launch
from nomemory.server.settings import Settings

Loading = tuple[subprocess.Popen[bytes], socket.socket]
"""A process, and the writer's end of its pipe. It waits for orders, and ends when the pipe is closed."""


def start_reader(number: int) -> Loading:
    """Start the reader of that number.

    Raises:
        WorkerUnavailableError: the system refuses.
    """
    return Launch("nomemory.server.processes.reader", (str(number),), logs=True).start()


def start_readers(settings: Settings) -> Mapping[int, Loading]:
    """Start all the readers that the settings ask for; returns them by their numbers.

    Raises:
        WorkerUnavailableError: the system refuses.
    """
    return {number: start_reader(number) for number in reader_numbers(settings)}


def reader_numbers(settings: Settings) -> range:
    """Return the numbers of the readers; the writer has 0."""
    return range(1, settings.workers)
