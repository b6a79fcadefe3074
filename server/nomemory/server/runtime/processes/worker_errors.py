"""Errors of calls to a worker process."""

from __future__ import annotations


class WorkerError(Exception):
    """A call to a worker process failed."""


class WorkerLostError(WorkerError):
    """The worker died during the call, or was killed because it did not respond."""


class WorkerUnavailableError(WorkerError):
    """The worker could not be started, or is closed."""


class WorkerSlowError(WorkerError):
    """The call timed out because the worker is busy with other calls."""


class WorkerFailedError(WorkerError):
    """The worker replied with an error; the message is the exception class."""
