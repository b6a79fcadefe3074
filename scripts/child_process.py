"""Child processes that exit with the script that started them, even if that script is killed.

A child's standard input is a pipe whose other end is open only in its parent. When the parent exits, the child reads
end of file and sends itself SIGTERM. The method works on every POSIX system and, unlike Linux's PR_SET_PDEATHSIG, does
not depend on the thread that started the child.
"""

from __future__ import annotations

import os
import runpy
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import IO, Final

from usage import show_help

NOMEMORY: Final = str(Path(sys.executable).with_name("nomemory"))
"""Path of the `nomemory` command in the environment of this interpreter."""
_EXIT_MAX_S: Final = 30.0


def start_program(
    program: str,
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    stderr: IO[str] | int | None = None,
) -> subprocess.Popen[str]:
    """Start a Python program whose standard output is a pipe.

    Also make SIGTERM raise SystemExit in this process, so that context managers stop the children they started.

    Args:
        program: path of a Python file, or name of a module.
        arguments: `sys.argv[1:]` of the program.
        environment: environment variables of the program; None: those of this process.
        stderr: as in `subprocess.Popen`.
    """
    _unwind_on_sigterm()
    return subprocess.Popen(  # noqa: S603 - trusted programs
        [sys.executable, __file__, program, *arguments],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
    )


def _unwind_on_sigterm() -> None:
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _exit_on_signal)


def _exit_on_signal(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def _exit_with_parent(parent: int) -> None:
    while os.read(parent, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_EXIT_MAX_S)
    os._exit(1)


def main() -> None:
    """Run the program named on the command line in this process, and stop it when the parent exits."""
    program = sys.argv[1]
    parent = os.dup(sys.stdin.fileno())
    os.dup2(os.open(os.devnull, os.O_RDONLY), sys.stdin.fileno())
    threading.Thread(target=_exit_with_parent, args=(parent,), daemon=True).start()
    sys.argv = sys.argv[1:]
    if os.sep in program:
        runpy.run_path(program, run_name="__main__")
    else:
        runpy.run_module(program, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    show_help(__doc__)
    main()
