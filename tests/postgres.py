"""A private PostgreSQL for the tests, and a fresh schema in it for whoever asks.

It is started when the first test wants it. The workers of one run share it, and the last one to end stops it. It
listens on a Unix socket only and does not run as root, which PostgreSQL refuses.
"""

from __future__ import annotations

import fcntl
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Final

NOT_INSTALLED: Final = "no PostgreSQL is installed here (initdb is not found)"
_USER: Final = "nomemory"
_FAST: Final = ("fsync=off", "full_page_writes=off", "shared_buffers=32MB", "max_connections=200")
_OTHER_USERS: Final = ("postgres", "nobody")


@cache
def programs() -> Path | None:
    """Return the directory of PostgreSQL's programs; None where it is not installed."""
    found = shutil.which("initdb")
    if found:
        return Path(found).resolve().parent
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    return installed[-1] if installed else None


@dataclass(frozen=True)
class PrivatePostgres:
    """A server of one's own: `root` has its data, its socket and what it says."""

    root: Path

    @property
    def url(self) -> str:
        return f"postgresql://{_USER}@/postgres?host={self.root}"

    @property
    def process_id(self) -> int:
        return int((self.root / "data/postmaster.pid").read_text().splitlines()[0])

    def start(self, options: Sequence[str] = _FAST) -> None:
        """Start it and wait until it answers."""
        where = ("listen_addresses=", f"unix_socket_directories={self.root}")
        given = " ".join(f'-c "{option}"' for option in (*where, *options))
        self._run("pg_ctl", "-D", str(self.root / "data"), "-l", str(self.root / "said"), "-o", given, "-w", "start")

    def stop(self, mode: str = "immediate") -> None:
        """Stop it: `fast` is orderly, `immediate` is as if it had crashed."""
        self._run("pg_ctl", "-D", str(self.root / "data"), "-m", mode, "-w", "stop")

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Have it, and all its backends, answer nothing until the context is left."""
        found = subprocess.run(["pgrep", "-P", str(self.process_id)], check=False, capture_output=True, text=True)  # noqa: S607
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
        self._run(
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

    def _run(self, program: str, *arguments: str) -> None:
        directory = programs()
        assert directory is not None
        command = [*as_another_user(), str(directory / program), *arguments]
        done = subprocess.run(
            command, check=False, capture_output=True, text=True, cwd=self.root, stdin=subprocess.DEVNULL
        )
        assert done.returncode == 0, done.stdout + done.stderr


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
def private_postgres(options: Sequence[str] = _FAST) -> Iterator[PrivatePostgres]:
    """Run a server of one's own until the context is left."""
    server = made()
    server.start(options)
    try:
        yield server
    finally:
        _end(server)


@contextmanager
def shared_postgres(meeting_place: Path) -> Iterator[PrivatePostgres]:
    """Run a server that all who name the same directory share, until the last of them leaves."""
    meeting_place.mkdir(parents=True, exist_ok=True)
    with _locked(meeting_place / "postgres.lock") as file:
        count, _, root = file.read().partition(" ")
        server = PrivatePostgres(Path(root)) if root else made()
        if not root:
            server.start()
        _write(file, f"{int(count or 0) + 1} {server.root}")
    try:
        yield server
    finally:
        with _locked(meeting_place / "postgres.lock") as file:
            count = file.read().partition(" ")[0]
            last = int(count) == 1
            _write(file, "" if last else f"{int(count) - 1} {server.root}")
            if last:
                _end(server)


def fresh_schema(server: PrivatePostgres) -> str:
    """Return the URL of a schema that nobody has used; the log makes its tables in it."""
    return schema_url(server, f"s{uuid.uuid4().hex}")


def schema_url(server: PrivatePostgres, schema: str) -> str:
    """Return the URL of a schema, which is made if it does not exist."""
    execute(server, f'CREATE SCHEMA IF NOT EXISTS "{schema}"')
    return f"{server.url}&search_path={schema}"


def count(server: PrivatePostgres, url: str, table: str) -> int:
    """Count the rows of a table in a schema, by its URL."""
    schema = url.partition("search_path=")[2]
    return int(execute(server, f'SELECT count(*) FROM "{schema}".{table}'))  # noqa: S608 - ours


def execute(server: PrivatePostgres, statement: str) -> str:
    """Execute a statement as the server's owner; return what it says, without headings."""
    directory = programs()
    assert directory is not None
    where = ("-h", str(server.root), "-U", _USER, "postgres")
    command = [str(directory / "psql"), "-q", "-At", "-v", "ON_ERROR_STOP=1", *where]
    return subprocess.run([*command, "-c", statement], check=True, capture_output=True, text=True).stdout


def made(owner: str = _USER) -> PrivatePostgres:
    """Make a server of one's own, which is not started yet; `owner` is the role that may do everything."""
    root = Path(tempfile.mkdtemp(prefix="nomemory-pg-"))
    root.chmod(0o755)
    if other := as_another_user():
        shutil.chown(root, int(other[1].partition("=")[2]), int(other[2].partition("=")[2]))
    server = PrivatePostgres(root)
    server.initialise(owner)
    return server


def _end(server: PrivatePostgres) -> None:
    if (server.root / "data/postmaster.pid").exists():
        server.stop()
    shutil.rmtree(server.root)


@contextmanager
def _locked(path: Path) -> Iterator[IO[str]]:
    with path.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        yield file


def _write(file: IO[str], text: str) -> None:
    file.seek(0)
    file.truncate()
    file.write(text)
    file.flush()
