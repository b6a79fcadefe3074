"""Tests for the scripts of the cluster's PostgreSQL: a standby copies, follows and is promoted."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from deploy.files import DEPLOY, environment_of_service

from nomemory.server.store.postgres.connections import Database
from proofs.private_postgres import (
    NOT_INSTALLED,
    PrivatePostgres,
    build_unprivileged_command_prefix,
    create_postgres,
    find_program_directory,
)

pytestmark = pytest.mark.skipif(find_program_directory() is None, reason=NOT_INSTALLED)
SCRIPTS = DEPLOY / "postgres"
SECRETS = {"DATABASE_PASSWORD": "it's secret", "STANDBY_PASSWORD": 'of "the" copy'}
WAIT_S = 60
ATTRIBUTES = environment_of_service("compose.cluster.yaml", "nomemory-1")["NOMEMORY_DATABASE_URL"].rpartition("?")[2]


def variables(server: PrivatePostgres, **more: str) -> dict[str, str]:
    """Return the environment of the image, for a server at a Unix socket."""
    path = f"{find_program_directory()}:{os.environ['PATH']}"
    return {"PATH": path, "PGHOST": str(server.root), "PGDATA": str(server.root / "data"), **SECRETS, **more}


@pytest.fixture(scope="module")
def primary() -> Iterator[PrivatePostgres]:
    """A PostgreSQL server that the primary script initialized."""
    server = create_postgres("postgres")
    try:
        server.start(("fsync=off", "wal_level=replica"))
        with scripts_in(server) as scripts:
            command = [*build_unprivileged_command_prefix(), "bash", str(scripts / "first-start.sh")]
            done = subprocess.run(
                command, env=variables(server, POSTGRES_USER="postgres"), capture_output=True, text=True, check=False
            )
        assert done.returncode == 0, done.stderr
        server.stop()
        server.start(("fsync=off", "wal_level=replica"))
        yield server
    finally:
        with suppress(AssertionError):
            server.stop()
        shutil.rmtree(server.root)


@contextmanager
def scripts_in(server: PrivatePostgres) -> Iterator[Path]:
    """Copy the scripts into a directory that the user of the server can read."""
    scripts = server.root / "scripts"
    shutil.copytree(SCRIPTS, scripts)
    try:
        yield scripts
    finally:
        shutil.rmtree(scripts)


@contextmanager
def standby(primary: PrivatePostgres) -> Iterator[subprocess.Popen[bytes]]:
    """Run the standby script until the context exits."""
    environment = {"PGDATA": str(primary.root / "copy/data"), "PRIMARY_HOST": str(primary.root)}
    where = ["-c", "listen_addresses=", "-c", f"unix_socket_directories={primary.root}/copy", "-c", "fsync=off"]
    with (
        scripts_in(primary) as scripts,
        (primary.root / "copy/said").open("ab") as output,
        subprocess.Popen(
            [*build_unprivileged_command_prefix(), "bash", str(scripts / "standby.sh"), *where],
            env=variables(primary, **environment), stdout=output, stderr=output,
        ) as process,
    ):  # fmt: skip
        try:
            yield process
        finally:
            process.send_signal(signal.SIGQUIT)
            process.wait(WAIT_S)


def url(root: Path) -> str:
    return f"postgresql://nomemory@/nomemory?host={root}"


def execute(url: str, statement: str) -> object:
    async def run() -> object:
        connection = await Database(url).connect()
        try:
            return await connection.fetchval(statement)
        finally:
            await connection.close()

    return asyncio.run(run())


def until(happened: Callable[[], bool]) -> None:
    give_up = time.monotonic() + WAIT_S
    while True:
        with suppress(Exception):
            if happened():
                return
        assert time.monotonic() < give_up
        time.sleep(0.1)


def test_standby_copies_follows_and_takes_over(primary: PrivatePostgres) -> None:
    copy = primary.root / "copy"
    copy.mkdir()
    shutil.chown(copy, primary.root.stat().st_uid, primary.root.stat().st_gid)
    execute(url(primary.root), "CREATE TABLE said (text text)")
    with standby(primary):
        until(lambda: execute(url(copy), "SELECT pg_is_in_recovery()") is True)
        execute(url(primary.root), "INSERT INTO said VALUES ('before')")
        until(lambda: execute(url(copy), "SELECT count(*) FROM said") == 1)
    execute(url(primary.root), "INSERT INTO said VALUES ('while it was away')")
    with standby(primary):
        until(lambda: execute(url(copy), "SELECT count(*) FROM said") == 2)
        either = f"postgresql://nomemory@/nomemory?host={copy},{primary.root}&port=5432,5432&{ATTRIBUTES}"
        assert execute(either, "SELECT pg_is_in_recovery()") is False
        primary.stop()
        promoted = f"postgresql://postgres@/postgres?host={copy}"
        assert execute(promoted, "SELECT pg_promote()") is True
        until(lambda: execute(either, "INSERT INTO said VALUES ('afterwards') RETURNING text") == "afterwards")
    primary.start(("fsync=off", "wal_level=replica"))


def test_database_roles_have_minimal_privileges(primary: PrivatePostgres) -> None:
    may = (
        "SELECT string_agg(concat(rolname, rolsuper, rolcreatedb, rolcreaterole, rolreplication), ' ' ORDER BY rolname)"
    )
    roles = f"{may} FROM pg_roles WHERE rolname IN ('nomemory', 'standby')"
    assert execute(f"postgresql://postgres@/postgres?host={primary.root}", roles) == "nomemoryffff standbyffft"
    hba = (primary.root / "data/pg_hba.conf").read_text().splitlines()
    assert hba[-1] == "host replication standby samenet scram-sha-256"
