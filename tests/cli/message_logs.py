"""Helpers that fill a message log, read its rows from either engine, and list all messages of a server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from pathlib import Path

import asyncpg
from server.fleet import until

from chat_messages import ids, new_message
from nomemory.server.runtime.settings import Settings
from nomemory.server.store.position import LogIdentity
from nomemory.server.store.sqlite.schema import format_column_list, open_read_only_log, read_bucket_state, read_position
from nomemory.server.store.tables import TABLES
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import message_pb2 as m
from nomemory.v1 import query_service_pb2 as q
from running_server import Server

Start = Callable[[Settings], AbstractContextManager[Server]]
Rows = dict[str, object]

WAIT_S = 60


def rows_of_directory(data: Path) -> Rows:
    """Return all rows of the log in a data directory, with its identity and the last sequence and id."""
    with closing(open_read_only_log(data / "log.db")) as log:
        rows: Rows = {
            table.name: sorted(
                log.execute(f"SELECT {format_column_list(table.columns)} FROM {table.name}").fetchall(),  # noqa: S608 - ours
                key=repr,
            )
            for table in TABLES
        }
        identity, sequence = read_position(log)
        return {"identity": identity, "sequence": sequence, "last_id": read_bucket_state(log).last_id, **rows}


def rows_of_database(url: str) -> Rows:
    """Return all rows of the log in a database, with its identity and the last sequence and id."""
    return asyncio.run(_rows_of_database(url))


async def _rows_of_database(url: str) -> Rows:
    connection = await asyncpg.connect(url)
    try:
        rows: Rows = {
            table.name: sorted(
                map(tuple, await connection.fetch(f"SELECT {', '.join(table.columns)} FROM {table.name}")),  # noqa: S608 - ours
                key=repr,
            )
            for table in TABLES
        }
        ((log_id, epoch),) = await connection.fetch("SELECT log_id, epoch FROM log_state")
        ((sequence, last_id),) = await connection.fetch("SELECT DISTINCT sequence, last_id FROM buckets")
        identity = LogIdentity(log_id, epoch)
        return {"identity": identity, "sequence": sequence, "last_id": int.from_bytes(last_id, "big"), **rows}
    finally:
        await connection.close()


def write(server: Server, *messages: m.ChatMessage, request_id: str = "") -> i.WriteMessagesResponse:
    return server.ingest.WriteMessages(i.WriteMessagesRequest(messages=messages, request_id=request_id))


def fill_some(server: Server) -> None:
    """Write five messages of one user."""
    write(server, *(new_message("bob", f"b{n}", f"message number {n}", ts=n) for n in range(5)))


def fill_many(server: Server, users: int) -> None:
    """Write a hundred messages of each user, and delete some of them."""
    for number in range(users):
        user = f"user{number}"
        talk = [new_message(user, f"m{n}", f"number {n} 你好", ts=n, metadata={"n": str(n % 3)}) for n in range(100)]
        talk[50].retracts.extend(["m3", "m98"])
        write(server, *talk)
    server.ingest.EraseUser(i.EraseUserRequest(user_id="user1"))
    server.ingest.DeleteMessages(i.DeleteMessagesRequest(user_id="user2", message_ids=["m1", "m2"]))


def listed_ids(server: Server, user: str) -> list[str]:
    return ids(server.query.ListMessages(q.ListMessagesRequest(user_id=user, page_size=500)).items)


def lexical_search(server: Server, user: str, text: str, token: str) -> list[str]:
    request = q.LexicalSearchRequest(user_id=user, query_text=text, at_least=token)
    return ids(server.query.LexicalSearch(request, timeout=WAIT_S).items)


def semantic_search(server: Server, user: str, text: str, token: str) -> list[tuple[str, float]]:
    request = q.SemanticSearchRequest(user_id=user, query_text=text, top_k=50, at_least=token)
    items = server.query.SemanticSearch(request, timeout=WAIT_S).items
    return [(item.message.message_id, round(item.score, 4)) for item in items]


def everything(server: Server) -> dict[str, list[m.ChatMessage]]:
    """Return all messages of all users."""
    return {
        user.user_id: [
            message
            for batch in server.query.ExportMessages(q.ExportMessagesRequest(user_id=user.user_id))
            for message in batch.messages
        ]
        for user in server.query.ListUsers(q.ListUsersRequest()).users
    }


def texts_embedded(server: Server) -> int:
    """Wait until the vector index is up to date; return the number of texts embedded since the server start."""
    assert until(lambda: _is_up_to_date(server))
    return server.ingest.GetIndexStatus(i.GetIndexStatusRequest()).embedder.texts_embedded


def _is_up_to_date(server: Server) -> bool:
    status = server.ingest.GetIndexStatus(i.GetIndexStatusRequest())
    return status.vector.checkpoint == status.log.sequence and not status.vector.pending
