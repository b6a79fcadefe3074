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
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

_OWNER_ONLY: Final = 0o700


@dataclass(frozen=True, slots=True)
class Home:
    """The layout of the directory. Only its owner can look into it."""

    root: Path

    @classmethod
    def of_this_user(cls) -> Home:
        """Return the home where the system keeps the data of programs: `XDG_DATA_HOME`, or the platform's place."""
        if named := os.environ.get("XDG_DATA_HOME"):
            return cls(Path(named) / "nomemory")
        place = "Library/Application Support" if sys.platform == "darwin" else ".local/share"
        return cls(Path.home() / place / "nomemory")

    @property
    def data(self) -> Path:
        """The data directory of the server."""
        return self.root / "data"

    @property
    def target(self) -> str:
        """The address of the server: a socket that only its owner can open."""
        return f"unix:{self.root / 'socket'}"

    @property
    def hooks(self) -> Path:
        """The socket at which the server listens for hooks; it is there once the server serves."""
        return self.root / "hooks"

    @property
    def waiting(self) -> Path:
        """The directory of events that found no server."""
        return self.root / "waiting"

    @property
    def log(self) -> Path:
        """The server's log."""
        return self.root / "server.log"

    @property
    def progress(self) -> Path:
        """How far each transcript has been read."""
        return self.root / "transcripts.json"

    def made(self) -> Home:
        """Make the directory, if it is not there.

        Raises:
            OSError: it cannot be made.
        """
        self.root.mkdir(parents=True, exist_ok=True, mode=_OWNER_ONLY)
        self.root.chmod(_OWNER_ONLY)
        self.waiting.mkdir(exist_ok=True, mode=_OWNER_ONLY)
        return self

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Keep the server from ending. While it is ending, wait until it has."""
        with self.users() as file:
            fcntl.flock(file, fcntl.LOCK_SH)
            yield

    @contextmanager
    def starting(self) -> Iterator[None]:
        """Keep others from starting a server meanwhile."""
        with (self.root / "starting").open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def users(self) -> BinaryIO:
        """Open the file that whoever uses the server has locked."""
        return (self.root / "in-use").open("ab")


def user_here() -> str:
    """Return the name of the operating system's user; the number where it has no name."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
