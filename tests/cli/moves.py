"""What tests of moves share: a log with messages of every kind, all its rows, and all that a server answers from it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import pytest
from cli.command_line import Run
from click.testing import Result
from server.fleet import until

from nomemory.server.data_directory import DataDirectory
from nomemory.server.log.sqlite.schema import open_for_reading
from nomemory.server.log.tables import TABLES
from nomemory.server.maintenance.move import LogPlace
from nomemory.server.maintenance.move_database import LogDatabase
from nomemory.server.maintenance.move_file import LogFile
from nomemory.server.settings import Settings
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import message_pb2 as m
from nomemory.v1 import query_service_pb2 as q
from served import Server
from talk import ids, said

Start = Callable[[Settings], AbstractContextManager[Server]]
Rows = dict[str, object]

WAIT_S = 60


@dataclass(frozen=True)
class Move:
    """A way to move a log: from where to where, as the command and as a server is told."""

    source: str
    target: str
    former: Settings
    later: Settings

    @classmethod
    def of(cls, settings: Settings, url: str, *, to_database: bool) -> Move:
        """Return the move between the directory of some settings, or one beside it, and a database."""
        data, there = settings.server.data, settings.with_changes(log=url)
        if to_database:
            return cls(str(data), url, settings, there)
        return cls(url, str(data.with_name("target")), there, settings.with_changes(data=data.with_name("target")))

    def run(self, run: Run) -> Result:
        """Run the command."""
        return run("migrate", "--from", self.source, "--to", self.target)

    def complete(self, run: Run) -> None:
        """Move it."""
        moved = self.run(run)
        assert (moved.exit_code, "Verified, every row: " in moved.output) == (0, True), moved.output

    def interrupt(self, run: Run, monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
        """Have the command killed when the target gets to `prepare` (all is copied) or `finish` (all but the end)."""

        async def is_killed(*_: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(LogDatabase if self.target.startswith("postgresql://") else LogFile, moment, is_killed)
            assert self.run(run).exit_code == 1


def rows_of(place: str) -> Rows:
    """Return all rows of a log: of a database by its URL, or of a directory."""
    if place.startswith("postgresql://"):
        return asyncio.run(_in_database(place))
    directory = DataDirectory(Path(place))
    with closing(open_for_reading(directory.log)) as connection:
        return asyncio.run(_rows(LogFile(directory, connection)))


async def _in_database(url: str) -> Rows:
    connection = await asyncpg.connect(url)
    try:
        return await _rows(LogDatabase(connection, DataDirectory(Path())))
    finally:
        await connection.close()


async def _rows(log: LogPlace) -> Rows:
    rows: Rows = {table.name: sorted(await log.page(table, None, 100_000), key=repr) for table in TABLES}
    return {"position": await log.position(), "last_id": (await log.handed_over()).last_id, **rows}


def write(server: Server, *messages: m.ChatMessage, request_id: str = "") -> i.WriteMessagesResponse:
    return server.ingest.WriteMessages(i.WriteMessagesRequest(messages=messages, request_id=request_id))


def fill_some(server: Server) -> None:
    """Write five messages of one user."""
    write(server, *(said("bob", f"b{n}", f"message number {n}", ts=n) for n in range(5)))


def many(server: Server, users: int) -> None:
    """Write a hundred messages of each user, and remove some."""
    for place in range(users):
        user = f"user{place}"
        talk = [said(user, f"m{n}", f"number {n} 你好", ts=n, metadata={"n": str(n % 3)}) for n in range(100)]
        talk[50].retracts.extend(["m3", "m98"])
        write(server, *talk)
    server.ingest.EraseUser(i.EraseUserRequest(user_id="user1"))
    server.ingest.DeleteMessages(i.DeleteMessagesRequest(user_id="user2", message_ids=["m1", "m2"]))


def listed(server: Server, user: str) -> list[str]:
    return ids(server.query.ListMessages(q.ListMessagesRequest(user_id=user, page_size=500)).items)


def by_words(server: Server, user: str, text: str, token: str) -> list[str]:
    request = q.LexicalSearchRequest(user_id=user, query_text=text, at_least=token)
    return ids(server.query.LexicalSearch(request, timeout=WAIT_S).items)


def by_meaning(server: Server, user: str, text: str, token: str) -> list[tuple[str, float]]:
    request = q.SemanticSearchRequest(user_id=user, query_text=text, top_k=50, at_least=token)
    items = server.query.SemanticSearch(request, timeout=WAIT_S).items
    return [(item.message.message_id, round(item.score, 4)) for item in items]


def everything(server: Server) -> dict[str, list[m.ChatMessage]]:
    """Return all messages of all users."""
    return {
        one.user_id: [
            message
            for batch in server.query.ExportMessages(q.ExportMessagesRequest(user_id=one.user_id))
            for message in batch.messages
        ]
        for one in server.query.ListUsers(q.ListUsersRequest()).users
    }


def embedded(server: Server) -> int:
    """Wait until the index by meaning has everything; return how many texts this took since the server started."""
    assert until(lambda: _is_settled(server))
    return server.ingest.GetIndexStatus(i.GetIndexStatusRequest()).embedder.texts_embedded


def _is_settled(server: Server) -> bool:
    status = server.ingest.GetIndexStatus(i.GetIndexStatusRequest())
    return status.vector.checkpoint == status.log.sequence and not status.vector.pending
