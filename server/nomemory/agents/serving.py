"""`python -m nomemory.agents.serving HOME [IDLE_S]`: the local server. It ends itself when nobody uses it any more."""

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

from nomemory.agents.home import Home
from nomemory.agents.hook_server import HookServer
from nomemory.agents.local_server import BUSY, IDLE_S
from nomemory.server.runtime.app import serve
from nomemory.server.runtime.data_directory import DataDirectoryBusyError
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.settings.identity import IdentitySettings
from nomemory.server.runtime.startup_errors import CannotStartError

_LOOKS: Final = 20
"""How often it looks, in the time that it may be unused."""
_ELSEWHERE: Final = ("http", "metrics", "recall_upstream")
_LOG_BYTES: Final = 1 << 20
_tasks: Final = set[asyncio.Task[None]]()


def main() -> int:
    """Serve. The exit code is 75 where another server is there already."""
    home = Home(Path(sys.argv[1])).made()
    idle_s = float(sys.argv[2]) if len(sys.argv) > 2 else IDLE_S  # noqa: PLR2004 - the second argument
    if home.log.exists() and home.log.stat().st_size > _LOG_BYTES:
        os.truncate(home.log, 0)
    try:
        serve(_settings(home), lambda _addresses: _begin(home, idle_s))
    except DataDirectoryBusyError:
        return BUSY
    except (CannotStartError, ValidationError) as error:
        print(error, file=sys.stderr)  # noqa: T201 - into the log, whose last lines are shown
        return 1
    return 0


def _settings(home: Home) -> Settings:
    """Return the environment's settings, but for where it serves, and to whom: the socket's owner alone."""
    trusting = {name: field.default for name, field in IdentitySettings.model_fields.items()}
    here = {"data": home.data, "log": None, "key_file": None, "listen": home.target, "inspect": False}
    nowhere = dict.fromkeys(_ELSEWHERE, "")
    return Settings.from_environment(**trusting, **here, **nowhere, audit_log=False, log_level="warning")


def _begin(home: Home, idle_s: float) -> None:
    """Listen for hooks, which says that the server serves; and look whether anybody uses it."""
    task = asyncio.get_running_loop().create_task(_until_unused(home, idle_s))
    _tasks.add(task)


async def _until_unused(home: Home, idle_s: float) -> None:
    users = home.users()
    hooks = HookServer(home)
    async with hooks.open():
        while True:
            await asyncio.sleep(idle_s / _LOOKS)
            if not _is_free(users.fileno()):
                hooks.last_used = time.monotonic()
            elif time.monotonic() - hooks.last_used >= idle_s:
                break
            else:
                fcntl.flock(users, fcntl.LOCK_UN)
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.Event().wait()  # whoever comes now waits for `users`, until this process has ended


def _is_free(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
