"""The local data directory of a user: data, sockets and locks of the local server.

Clients of the server hold a file lock, which the operating system releases when a process exits.
"""

from __future__ import annotations

import fcntl
import os
import pwd
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import BinaryIO, Final, Self

_OWNER_ONLY: Final = 0o700
_USAGE_LOCK: Final = "in-use"


class LocalDataDir:
    """The layout of the local data directory. Only the owner can access the directory.

    Attributes:
        target: the address of the server, a Unix socket that only its owner can open.
        hooks: the socket for hook events, which exists while the server runs.
        queued_events: the directory for events that hooks write while no server runs.
        progress: the file with the read positions of transcripts.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.data = root / "data"
        self.target = f"unix:{root / 'socket'}"
        self.hooks = root / "hooks"
        self.queued_events = root / "waiting"
        self.log = root / "server.log"
        self.progress = root / "transcripts.json"

    @classmethod
    def for_current_user(cls) -> Self:
        """Return the directory in `XDG_DATA_HOME` or the default data directory of the platform, and create it.

        Raises:
            OSError: the directory cannot be created.
        """
        default = "Library/Application Support" if sys.platform == "darwin" else ".local/share"
        return cls(Path(os.environ.get("XDG_DATA_HOME") or Path.home() / default) / "nomemory").create()

    def create(self) -> Self:
        """Create the directory if it does not exist, and return this object.

        Raises:
            OSError: the directory cannot be created.
        """
        self.queued_events.mkdir(parents=True, exist_ok=True, mode=_OWNER_ONLY)
        self.root.chmod(_OWNER_ONLY)
        return self

    def hold_usage_lock(self) -> AbstractContextManager[None]:
        """Hold the usage lock, which keeps the server running; wait while a server shuts down."""
        return self._hold_lock(_USAGE_LOCK, fcntl.LOCK_SH)

    def hold_start_lock(self) -> AbstractContextManager[None]:
        """Hold the start lock, so that only one process at a time starts a server."""
        return self._hold_lock("starting", fcntl.LOCK_EX)

    def open_usage_lock(self) -> BinaryIO:
        """Open the usage lock file."""
        return (self.root / _USAGE_LOCK).open("ab")

    @contextmanager
    def _hold_lock(self, name: str, operation: int) -> Iterator[None]:
        with (self.root / name).open("ab") as file:
            fcntl.flock(file, operation)
            yield


def read_current_user_name() -> str:
    """Return the name of the operating system user, or the numeric id if there is none."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
