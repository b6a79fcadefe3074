"""A server in a separate process with a readable log."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc

from running_server import address_in

SERVE = [sys.executable, "-c", "from nomemory.cli.main import main; main()", "serve"]


@contextmanager
def logging_to(path: Path, **settings: str) -> Iterator[grpc.Channel]:
    """Run a server that logs to a file at the level debug."""
    environment = os.environ | {f"NOMEMORY_{name.upper()}": value for name, value in settings.items()}
    environment |= {"NOMEMORY_EMBEDDER": "none", "NOMEMORY_DATA": str(path.parent / "data")}
    with (
        path.open("w") as log,
        subprocess.Popen(
            [*SERVE, "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, stderr=log, text=True, env=environment
        ) as process,
    ):
        assert process.stdout is not None
        try:
            with grpc.insecure_channel(address_in(process.stdout.readline())) as channel:
                yield channel
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


def calls_in(log: str) -> list[tuple[str | None, str | None, str]]:
    """Return caller, identity and status code of each call."""
    lines = [json.loads(line) for line in log.splitlines()]
    return [(line.get("caller"), line.get("identity"), line["code"]) for line in lines if line["event"] == "rpc"]
