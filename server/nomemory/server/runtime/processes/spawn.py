"""Start worker processes with `python -m MODULE DESCRIPTOR ARGUMENTS…`.

`multiprocessing` is not used because it would import the main module (and gRPC) into every worker and cannot set a
separate environment for each worker.
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
class ProcessLaunch:
    """The command of a worker process.

    Attributes:
        module: the Python module to run, whose first argument is the file descriptor of the socket.
        arguments: further arguments.
        environment: additional environment variables. Workers do not inherit the variables of settings, because these
            may contain secrets, and other processes of the same user can read the environment of a worker.
        logs: whether the worker writes log records; if not, its stderr is discarded unless the server has redirected
            stderr.
    """

    module: str
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    logs: bool = False

    def start(self) -> tuple[subprocess.Popen[bytes], socket.socket]:
        """Start the process and return it with the server's end of the socket pair.

        Raises:
            WorkerUnavailableError: the process cannot be started.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            descriptor, log = theirs.fileno(), standard_error.get_log_descriptor()
            # -P keeps the current directory from shadowing modules.
            command = [sys.executable, "-P", "-m", self.module, str(descriptor), *self.arguments]
            try:
                process = subprocess.Popen(  # noqa: S603 - a fixed command
                    command,
                    pass_fds=[descriptor] if log is None else [descriptor, log],
                    env={**strip_settings(os.environ), **standard_error.build_log_environment(), **self.environment},
                    umask=UMASK,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL if log is None and not self.logs else None,
                )
            except OSError as error:
                ours.close()
                raise WorkerUnavailableError(f"cannot start the worker process: {error.strerror}") from error
        return process, ours
