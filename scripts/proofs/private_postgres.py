"""Temporary PostgreSQL server for tests and benchmarks.

The server listens on a Unix socket only. If the caller is root, the server runs as another user, because PostgreSQL
rejects root.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar

import asyncpg

NOT_INSTALLED: Final = "PostgreSQL is not installed: initdb was not found"
_USER: Final = "nomemory"
FAST: Final = ("fsync=off", "full_page_writes=off", "shared_buffers=32MB", "max_connections=200")
_OTHER_USERS: Final = ("postgres", "nobody")
_Result = TypeVar("_Result")


@cache
def find_program_directory() -> Path | None:
    """Return the directory of the PostgreSQL programs; None if PostgreSQL is not installed."""
    initdb = shutil.which("initdb")
    if initdb:
        return Path(initdb).resolve().parent
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    return installed[-1] if installed else None


def _find_program(name: str) -> Path:
    directory = find_program_directory()
    if directory is None:
        raise RuntimeError(NOT_INSTALLED)
    return directory / name


@dataclass(frozen=True)
class PrivatePostgres:
    """A temporary PostgreSQL server; `root` contains its data, its socket and its log file."""

    root: Path

    @property
    def url(self) -> str:
        """Connection URL for the database owner."""
        return f"postgresql://{_USER}@/postgres?host={self.root}"

    @property
    def process_id(self) -> int:
        """Process id of the postmaster."""
        return int((self.root / "data/postmaster.pid").read_text().splitlines()[0])

    def start(self, options: Sequence[str] = FAST) -> None:
        """Start the server and wait until it accepts connections."""
        location = ("listen_addresses=", f"unix_socket_directories={self.root}")
        flags = " ".join(f'-c "{option}"' for option in (*location, *options))
        self.run_program(
            "pg_ctl", "-D", str(self.root / "data"), "-l", str(self.root / "server.log"), "-o", flags, "-w", "start"
        )

    def stop(self, mode: str = "immediate") -> None:
        """Stop the server; `fast` shuts down cleanly, `immediate` simulates a crash."""
        self.run_program("pg_ctl", "-D", str(self.root / "data"), "-m", mode, "-w", "stop")

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Suspend the server and its backends with SIGSTOP until the context exits."""
        children = subprocess.run(  # noqa: S603 - fixed program
            ["pgrep", "-P", str(self.process_id)],  # noqa: S607 - system program
            check=False,
            capture_output=True,
            text=True,
        )
        processes = [self.process_id, *map(int, children.stdout.split())]
        for process in processes:
            os.kill(process, signal.SIGSTOP)
        try:
            yield
        finally:
            for process in processes:
                os.kill(process, signal.SIGCONT)

    def create_files(self, owner: str = _USER) -> None:
        """Create the files of an empty server."""
        self.run_program(
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

    def run_program(self, program: str, *arguments: str) -> None:
        """Run a PostgreSQL program as the owner of the files.

        Raises:
            RuntimeError: the program failed; the text is its output.
        """
        command = [*build_unprivileged_command_prefix(), str(_find_program(program)), *arguments]
        completed = subprocess.run(  # noqa: S603 - fixed program
            command, check=False, capture_output=True, text=True, cwd=self.root, stdin=subprocess.DEVNULL
        )
        if completed.returncode:
            raise RuntimeError(completed.stdout + completed.stderr)


@cache
def build_unprivileged_command_prefix() -> tuple[str, ...]:
    """Return the command prefix that drops root privileges; empty if the caller is not root."""
    if os.geteuid() != 0:
        return ()
    other = next(user for user in map(_find_passwd_entry, _OTHER_USERS) if user)
    return ("setpriv", f"--reuid={other.pw_uid}", f"--regid={other.pw_gid}", "--clear-groups")


def _find_passwd_entry(name: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None


@contextmanager
def private_postgres(options: Sequence[str] = FAST) -> Iterator[PrivatePostgres]:
    """Run a temporary PostgreSQL server until the context exits."""
    server = create_postgres()
    server.start(options)
    try:
        yield server
    finally:
        remove_postgres(server)


def execute_statement(server: PrivatePostgres, statements: str) -> None:
    """Execute one or more statements as the database owner."""

    async def execute() -> None:
        async with _connect(server) as connection:
            await connection.execute(statements)

    _run_in_thread(execute())


def fetch_rows(server: PrivatePostgres, query: str) -> list[tuple[Any, ...]]:
    """Execute a query as the database owner, and return its rows."""

    async def fetch() -> list[tuple[Any, ...]]:
        async with _connect(server) as connection:
            return [tuple(row) for row in await connection.fetch(query)]

    return _run_in_thread(fetch())


@asynccontextmanager
async def _connect(server: PrivatePostgres) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    connection = await asyncpg.connect(server.url)
    try:
        yield connection
    finally:
        await connection.close()


def _run_in_thread(coroutine: Coroutine[Any, Any, _Result]) -> _Result:
    """Run a coroutine in a separate thread, because the caller's thread may run an event loop."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()


def create_postgres(owner: str = _USER) -> PrivatePostgres:
    """Create an empty server in a temporary directory, without starting it."""
    server = PrivatePostgres(_create_directory())
    server.create_files(owner)
    return server


def _create_directory() -> Path:
    root = Path(tempfile.mkdtemp(prefix="nomemory-pg-"))
    root.chmod(0o755)
    if other := build_unprivileged_command_prefix():
        shutil.chown(root, int(other[1].partition("=")[2]), int(other[2].partition("=")[2]))
    return root


def remove_postgres(server: PrivatePostgres) -> None:
    """Stop a server if it runs, and delete its files."""
    if (server.root / "data/postmaster.pid").exists():
        server.stop()
    shutil.rmtree(server.root)
