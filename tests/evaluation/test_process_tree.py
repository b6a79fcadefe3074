"""Tests for the CPU time of a process and its children."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from evaluation.temporary_server import list_process_tree, measure_cpu_ms

STARTING = "subprocess.run([sys.executable, '-c', 'while True: pass'])"
BUSY = f"import subprocess, sys, threading; threading.Thread(target=lambda: {STARTING}).start()"


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="the system does not tell")
def test_process_tree_includes_children() -> None:
    with subprocess.Popen([sys.executable, "-c", BUSY], start_new_session=True) as process:
        try:
            while len(list_process_tree(process.pid)) < 2:
                pass
            while (measure_cpu_ms(list_process_tree(process.pid)) or 0) < 200:
                pass
            assert len(list_process_tree(process.pid)) == 2
            assert (measure_cpu_ms([process.pid]) or 0) < 200
        finally:
            for pid in list_process_tree(process.pid):
                os.kill(pid, signal.SIGKILL)


def test_a_process_that_has_ended_has_no_cpu_time() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    assert list_process_tree(process.pid) == [process.pid]
    assert measure_cpu_ms([process.pid]) is None
