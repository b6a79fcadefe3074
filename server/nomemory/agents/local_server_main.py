"""The local server: `python -m nomemory.agents.local_server_main HOME [IDLE_S]`.

The server exits after an idle timeout.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import sys
import time
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from nomemory.agents.hook_server import HookServer
from nomemory.agents.local_data_dir import LocalDataDir
from nomemory.agents.local_server import BUSY, IDLE_S
from nomemory.server.runtime.app import serve
from nomemory.server.runtime.data_directory import DataDirectoryBusyError
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.settings.identity import IdentitySettings
from nomemory.server.runtime.startup_errors import StartupError
from nomemory.server.runtime.structured_logs import get_logger

_IDLE_CHECKS: Final = 20
"""Number of idle checks per idle timeout."""
_DISABLED_SETTINGS: Final = ("http_listen", "metrics_listen", "recall_upstream")
_MAX_LOG_BYTES: Final = 1 << 20
_log = get_logger("agents")
_tasks: Final = set[asyncio.Task[None]]()


def main() -> int:
    """Run the server. Return the exit status: 75 if another server is already running."""
    home = LocalDataDir(Path(sys.argv[1])).create()
    idle_s = float(sys.argv[2]) if len(sys.argv) > 2 else IDLE_S  # noqa: PLR2004 - the second argument
    if home.log.exists() and home.log.stat().st_size > _MAX_LOG_BYTES:
        os.truncate(home.log, 0)
    try:
        serve(_load_settings(home), lambda _addresses: _start_hook_server(home, idle_s))
    except DataDirectoryBusyError:
        return BUSY
    except (StartupError, ValidationError) as error:
        print(error, file=sys.stderr)  # noqa: T201 - stderr is the log, whose last lines are shown
        return 1
    return 0


def _load_settings(home: LocalDataDir) -> Settings:
    """Return the settings from the environment, without network addresses and credentials."""
    no_credentials = {name: field.default for name, field in IdentitySettings.model_fields.items()}
    local = {"data": home.data, "database_url": None, "key_file": None, "listen": home.target, "inspector": False}
    disabled = dict.fromkeys(_DISABLED_SETTINGS, "")
    return Settings.from_environment(**no_credentials, **local, **disabled, audit_log=False, log_level="warning")


def _start_hook_server(home: LocalDataDir, idle_s: float) -> None:
    """Listen for hook events, and stop the server when it is idle.

    The open socket signals that the server is running.
    """
    task = asyncio.get_running_loop().create_task(_stop_when_idle(home, idle_s))
    _tasks.add(task)
    task.add_done_callback(_stop_after_failure)


def _stop_after_failure(task: asyncio.Task[None]) -> None:
    """Stop the server if it cannot receive hook events, because agents would wait for its socket in vain."""
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("hook events cannot be received; the server stops", kind=type(error).__name__)
        os.kill(os.getpid(), signal.SIGTERM)


async def _stop_when_idle(home: LocalDataDir, idle_s: float) -> None:
    usage_lock = home.open_usage_lock()
    hooks = HookServer(home)
    async with hooks.open():
        while True:
            await asyncio.sleep(idle_s / _IDLE_CHECKS)
            if not _is_usage_lock_free(usage_lock.fileno()):
                hooks.last_used = time.monotonic()
            elif time.monotonic() - hooks.last_used >= idle_s:
                break
            else:
                fcntl.flock(usage_lock, fcntl.LOCK_UN)
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.Event().wait()  # new clients wait for the usage lock until this process has exited


def _is_usage_lock_free(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
