"""The home of one person's memory: a directory of theirs, with the data and with how to reach the server over it.

Whoever uses the server holds a lock, which the system lets go of when a process ends, however it ends. So nothing here
ever needs to be cleaned up by hand.
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
_IN_USE: Final = "in-use"


class LocalDataDir:
    """The layout of the directory. Only its owner can look into it.

    Args:
        root: the directory.

    Attributes:
        data: the data directory of the server.
        target: the address of the server: a socket that only its owner can open.
        hooks: the socket at which the server listens for hooks; it is there once the server serves.
        waiting: the directory of events that found no server.
        log: what the server has to say.
        progress: how far each transcript has been read.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.data = root / "data"
        self.target = f"unix:{root / 'socket'}"
        self.hooks = root / "hooks"
        self.waiting = root / "waiting"
        self.log = root / "server.log"
        self.progress = root / "transcripts.json"

    @classmethod
    def for_current_user(cls) -> Self:
        """Return the home where the system keeps the data of programs: `XDG_DATA_HOME`, or the platform's place.

        Raises:
            OSError: it is not there, and cannot be made.
        """
        place = "Library/Application Support" if sys.platform == "darwin" else ".local/share"
        return cls(Path(os.environ.get("XDG_DATA_HOME") or Path.home() / place) / "nomemory").made()

    def made(self) -> Self:
        """Make the directory, if it is not there.

        Raises:
            OSError: it cannot be made.
        """
        self.waiting.mkdir(parents=True, exist_ok=True, mode=_OWNER_ONLY)
        self.root.chmod(_OWNER_ONLY)
        return self

    def in_use(self) -> AbstractContextManager[None]:
        """Keep the server from ending. While it is ending, wait until it has."""
        return self._locked(_IN_USE, fcntl.LOCK_SH)

    def starting(self) -> AbstractContextManager[None]:
        """Keep others from starting a server meanwhile."""
        return self._locked("starting", fcntl.LOCK_EX)

    def users(self) -> BinaryIO:
        """Open the file that whoever uses the server has locked."""
        return (self.root / _IN_USE).open("ab")

    @contextmanager
    def _locked(self, name: str, how: int) -> Iterator[None]:
        with (self.root / name).open("ab") as file:
            fcntl.flock(file, how)
            yield


def current_user_name() -> str:
    """Return the name of the operating system's user; the number where it has no name."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
