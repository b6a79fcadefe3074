"""Starts worker processes.

A worker is started with `python -m MODULE DESCRIPTOR ARGUMENTS…`, not with `multiprocessing`, which would import the
caller's main module (and gRPC with it) into every worker, and could not give a worker an environment of its own.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

from nomemory.server.runtime import stderr as standard_error
from nomemory.server.runtime.processes.worker_errors import WorkerUnavailableError
from nomemory.server.runtime.secure_files import UMASK
from nomemory.server.runtime.settings.settings import strip_settings


@dataclass(frozen=True, slots=True)
class Launch:
    """How to start a worker: a module that is run with the descriptor of its socket and these arguments.

    Attributes:
        environment: added to this process's environment without the settings. They may hold secrets, and others can
            read an environment: a worker gets what it needs of them by its connection or as arguments.
        logs: whether it writes to this process's standard error even if that is not JSON lines.
    """

    module: str
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    logs: bool = False

    def start(self) -> tuple[subprocess.Popen[bytes], socket.socket]:
        """Start a process; return it and this end of its connection.

        Raises:
            WorkerUnavailableError: the system refuses.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            descriptor, log = theirs.fileno(), standard_error.log_descriptor()
            # -P keeps the current directory from shadowing modules.
            command = [sys.executable, "-P", "-m", self.module, str(descriptor), *self.arguments]
            try:
                process = subprocess.Popen(  # noqa: S603 - a command of our own
                    command,
                    pass_fds=[descriptor] if log is None else [descriptor, log],
                    env={**strip_settings(os.environ), **standard_error.log_environment(), **self.environment},
                    umask=UMASK,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL if log is None and not self.logs else None,
                )
            except OSError as error:
                ours.close()
                raise WorkerUnavailableError("cannot be started") from error
        return process, ours
