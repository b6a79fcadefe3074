"""Why a worker process did not answer a call."""

from __future__ import annotations


class WorkerError(Exception):
    """A worker did not answer a call."""


class WorkerLostError(WorkerError):
    """The worker died, or said nothing for too long and was killed, during this call."""


class WorkerUnavailableError(WorkerError):
    """There is no worker: it could not be started, or was closed."""


class WorkerSlowError(WorkerError):
    """The worker is busy with other calls and did not answer this one in time."""


class WorkerFailedError(WorkerError):
    """The worker replied that the call failed; the text is the kind of error."""
