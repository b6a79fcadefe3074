"""A script that is terminated or killed leaves no server and no temporary directory behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from evaluation.temporary_server import list_process_tree
from proofs.processes import select_running_pids

SCRIPTS = Path(__file__).parents[2] / "scripts"
EXIT_MAX_S = 30
SCRIPT = """
import time
from evaluation.temporary_server import temporary_server

with temporary_server({"NOMEMORY_EMBEDDER": "local"}) as server:
    print(server.process_id, flush=True)
    time.sleep(100)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_server_processes_exit_with_the_script(number: signal.Signals, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(SCRIPTS), "TMPDIR": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", SCRIPT], env=environment, stdout=subprocess.PIPE, text=True) as script:
        assert script.stdout
        server = int(script.stdout.readline())
        processes = set(list_process_tree(server))
        script.send_signal(number)
        assert script.wait(EXIT_MAX_S) == (128 + number if number == signal.SIGTERM else -number)
    assert len(processes) > 1
    deadline = time.monotonic() + EXIT_MAX_S
    while (left := select_running_pids(processes)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left
    if number == signal.SIGTERM:
        assert not list(tmp_path.glob("nomemory-*"))
