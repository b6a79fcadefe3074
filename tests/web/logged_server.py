"""A server in a separate process with a readable log."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from identity.logged_server import SERVE


@contextmanager
def logging_to(path: Path, *options: str, **settings: str) -> Iterator[str]:
    """Run a server that logs to a file; return its HTTP URL."""
    environment = os.environ | {f"NOMEMORY_{name.upper()}": value for name, value in settings.items()}
    environment |= {
        "NOMEMORY_EMBEDDER": "none",
        "NOMEMORY_DATA": str(path.parent / "data"),
        "NOMEMORY_DRAIN_TIMEOUT_S": "0.5",
    }
    command = [*SERVE, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", *options]
    with (
        path.open("w") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment) as process,
    ):
        assert process.stdout is not None
        try:
            process.stdout.readline()
            yield process.stdout.readline().split()[-1]
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)
