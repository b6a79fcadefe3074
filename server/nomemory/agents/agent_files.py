"""The files of coding agents that an installation changes, and the command that it writes into them."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from nomemory.agents import hook
from nomemory.agents.local_data_dir import LocalDataDir
from nomemory.server.runtime.secure_files import write_atomically


class InstallError(Exception):
    """Raised if the settings of an agent cannot be changed; the message states the reason."""


@dataclass(frozen=True, slots=True)
class FileChange:
    """A change to a file; None as the content means that the file does not exist."""

    path: Path
    old_content: bytes | None
    new_content: bytes | None

    def write_file(self) -> None:
        """Write the file, unless it has changed since it was read.

        Raises:
            InstallError: the file has been changed or cannot be written.
        """
        if read_optional_file(self.path) != self.old_content:
            raise InstallError(f"{self.path} was changed by another program; run the command again")
        try:
            if self.new_content is None:
                self.path.unlink(missing_ok=True)
            else:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                write_atomically(self.path, self.new_content, like=self.path.stat() if self.path.exists() else None)
        except OSError as error:
            raise InstallError(f"{self.path}: {error.strerror or error}") from None


def build_hook_command(home: LocalDataDir, agent: str) -> list[str]:
    """Return the command of the hook program, to which the caller appends the user id."""
    return [sys.executable, "-IS", str(Path(hook.__file__)), str(home.root), agent]


def read_optional_file(path: Path) -> bytes | None:
    """Return the content of a file; None if it does not exist.

    Raises:
        InstallError: the file cannot be read.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InstallError(f"{path}: {error.strerror or error}") from None
