"""Starts the further processes of a server.

Each is started with `python -m MODULE DESCRIPTOR ARGUMENTS…`, not with `multiprocessing`, which would import the
caller's main module (and gRPC with it) into every process, and could not give it an environment of its own.

Why a worker process did not answer a call.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

from nomemory.server import standard_error
from nomemory.server.private_files import UMASK
from nomemory.server.settings.settings import without_settings


class WorkerError(Exception):
    """A worker did not answer a call."""


class WorkerLostError(WorkerError):
    """The worker died, or said nothing for too long and was killed, while this call was with it."""


class WorkerUnavailableError(WorkerError):
    """There is no worker: it could not be started, or was closed."""


class WorkerSlowError(WorkerError):
    """The worker is busy with other calls and did not answer this one in time."""


class WorkerFailedError(WorkerError):
    """The worker answered that the call failed; the text is the kind of error."""


Started = tuple[subprocess.Popen[bytes], socket.socket]
"""A process, and this end of the pipe to it."""


@dataclass(frozen=True, slots=True)
class Launch:
    """How to start a process: a module that is run with the pipe's descriptor and then these arguments.

    Attributes:
        environment: added to this process's own, of which the settings are left out: they may hold secrets, and
            others can read an environment. What a process needs of them it gets by the pipe or as arguments.
        logs: whether it writes to this process's standard error even where that is not of JSON lines.
    """

    module: str
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    logs: bool = False

    def start(self) -> Started:
        """Start a process. `-P` keeps the current directory from shadowing modules.

        Raises:
            WorkerUnavailableError: the system refuses.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            descriptor, log = theirs.fileno(), standard_error.log_descriptor()
            command = [sys.executable, "-P", "-m", self.module, str(descriptor), *self.arguments]
            try:
                process = subprocess.Popen(  # noqa: S603 - a command of our own
                    command,
                    pass_fds=[descriptor] if log is None else [descriptor, log],
                    env={**without_settings(os.environ), **standard_error.inherited(), **self.environment},
                    umask=UMASK,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL if log is None and not self.logs else None,
                )
            except OSError as error:
                ours.close()
                raise WorkerUnavailableError("cannot be started") from error
        return process, ours
