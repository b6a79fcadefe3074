"""A private PostgreSQL: made, started, crashed and thrown away by whoever needs one.

It listens on a Unix socket only and does not run as root, which PostgreSQL refuses.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

NOT_INSTALLED: Final = "no PostgreSQL is installed here (initdb is not found)"
_USER: Final = "nomemory"
FAST: Final = ("fsync=off", "full_page_writes=off", "shared_buffers=32MB", "max_connections=200")
_OTHER_USERS: Final = ("postgres", "nobody")


@cache
def programs() -> Path | None:
    """Return the directory of PostgreSQL's programs; None where it is not installed."""
    found = shutil.which("initdb")
    if found:
        return Path(found).resolve().parent
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    return installed[-1] if installed else None


def _program(name: str) -> Path:
    directory = programs()
    if directory is None:
        raise RuntimeError(NOT_INSTALLED)
    return directory / name


@dataclass(frozen=True)
class PrivatePostgres:
    """A server of one's own: `root` has its data, its socket and what it says."""

    root: Path

    @property
    def url(self) -> str:
        """Where it is, for its owner."""
        return f"postgresql://{_USER}@/postgres?host={self.root}"

    @property
    def process_id(self) -> int:
        """The process that all others of it are children of."""
        return int((self.root / "data/postmaster.pid").read_text().splitlines()[0])

    def start(self, options: Sequence[str] = FAST) -> None:
        """Start it and wait until it answers."""
        where = ("listen_addresses=", f"unix_socket_directories={self.root}")
        given = " ".join(f'-c "{option}"' for option in (*where, *options))
        self.run("pg_ctl", "-D", str(self.root / "data"), "-l", str(self.root / "said"), "-o", given, "-w", "start")

    def stop(self, mode: str = "immediate") -> None:
        """Stop it: `fast` is orderly, `immediate` is as if it had crashed."""
        self.run("pg_ctl", "-D", str(self.root / "data"), "-m", mode, "-w", "stop")

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Have it, and all its backends, answer nothing until the context is left."""
        found = subprocess.run(  # noqa: S603 - our own command
            ["pgrep", "-P", str(self.process_id)],  # noqa: S607 - wherever the system has it
            check=False,
            capture_output=True,
            text=True,
        )
        processes = [self.process_id, *map(int, found.stdout.split())]
        for process in processes:
            os.kill(process, signal.SIGSTOP)
        try:
            yield
        finally:
            for process in processes:
                os.kill(process, signal.SIGCONT)

    def initialise(self, owner: str = _USER) -> None:
        """Make the files of an empty server."""
        self.run(
            "initdb",
            "-D",
            str(self.root / "data"),
            "-U",
            owner,
            "--auth=trust",
            "--no-sync",
            "-E",
            "UTF8",
            "--locale=C",
        )

    def run(self, program: str, *arguments: str) -> None:
        """Run one of PostgreSQL's programs, as the user that the files belong to."""
        command = [*as_another_user(), str(_program(program)), *arguments]
        done = subprocess.run(  # noqa: S603 - our own command
            command, check=False, capture_output=True, text=True, cwd=self.root, stdin=subprocess.DEVNULL
        )
        if done.returncode:
            raise RuntimeError(done.stdout + done.stderr)


@cache
def as_another_user() -> tuple[str, ...]:
    """Return what goes before a command that root must not run itself."""
    if os.geteuid() != 0:
        return ()
    other = next(user for user in map(_entry, _OTHER_USERS) if user)
    return ("setpriv", f"--reuid={other.pw_uid}", f"--regid={other.pw_gid}", "--clear-groups")


def _entry(name: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None


@contextmanager
def private_postgres(options: Sequence[str] = FAST) -> Iterator[PrivatePostgres]:
    """Run a server of one's own until the context is left."""
    server = made()
    server.start(options)
    try:
        yield server
    finally:
        end(server)


def execute(server: PrivatePostgres, statement: str) -> str:
    """Execute a statement as the server's owner; return what it says, without headings."""
    where = ("-h", str(server.root), "-U", _USER, "postgres")
    command = [str(_program("psql")), "-q", "-At", "-v", "ON_ERROR_STOP=1", *where]
    return subprocess.run(  # noqa: S603 - our own command
        [*command, "-c", statement], check=True, capture_output=True, text=True
    ).stdout


def made(owner: str = _USER) -> PrivatePostgres:
    """Make the files of an empty server in a directory of its own."""
    server = PrivatePostgres(_directory())
    server.initialise(owner)
    return server


def _directory() -> Path:
    root = Path(tempfile.mkdtemp(prefix="nomemory-pg-"))
    root.chmod(0o755)
    if other := as_another_user():
        shutil.chown(root, int(other[1].partition("=")[2]), int(other[2].partition("=")[2]))
    return root


def end(server: PrivatePostgres) -> None:
    """Stop it if it runs, and throw it away."""
    if (server.root / "data/postmaster.pid").exists():
        server.stop()
    shutil.rmtree(server.root)
