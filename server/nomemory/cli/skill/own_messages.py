"""What one user said, from a file or from a server. Nobody else's messages are ever looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import click

from nomemory.cli.connection import Target, connect
from nomemory.cli.paging import PAGE_MAX, Paging, follow
from nomemory.client.sync import Client
from nomemory.importing import files
from nomemory.importing.json_stream import records
from nomemory.importing.jsonl import MessageLines
from nomemory.importing.record import Accepted, Record
from nomemory.recall.authoring.domain_terms import CHARS_MAX
from nomemory.v1 import message_pb2, query_service_pb2

_EVERYTHING: Final = Paging(limit=0, page_size=PAGE_MAX, cursor="")


@dataclass(frozen=True, slots=True)
class Source:
    """Where a user's messages are: in a file, or on a server where no file is given. False where there is none."""

    file: str | None
    user: str | None
    target: Target

    def __bool__(self) -> bool:
        return bool(self.file or self.user)


def said(source: Source) -> Iterator[str]:
    """Return what the user said, as much as terms are taken from.

    Raises:
        click.UsageError: the file has messages of several users, and none is chosen; or none of the chosen one.
        Refused: the server does not give them.
    """
    left = CHARS_MAX
    for content in _in_file(source.file, source.user) if source.file else _on_server(source.target, source.user or ""):
        yield content
        left -= len(content)
        if left <= 0:
            return


def _in_file(name: str, user: str | None) -> Iterator[str]:
    """Return one user's messages. The whole file is read first, so that a second user in it is never missed."""
    with files.Source(name) as source:
        found = list(_of_one(source, user))
    if not found:
        raise click.UsageError("--messages: the file has no message" + (" of this --user." if user else "."))
    yield from found


def _of_one(source: files.Source, user: str | None) -> Iterator[str]:
    owner, room = user, CHARS_MAX
    for message in _messages(source):
        owner = owner or message.user_id
        if message.user_id == owner:
            if message.role == message_pb2.ROLE_USER and room > 0:
                yield message.content
                room -= len(message.content)
        elif not user:
            raise click.UsageError("--messages: the file has messages of several users; say whose with --user.")


def _messages(source: files.Source) -> Iterator[message_pb2.ChatMessage]:
    lines = MessageLines("")
    for record in records(source):
        for parsed in lines.parse(record) if isinstance(record, Record) else ():
            if isinstance(parsed, Accepted):
                yield parsed.message


def _on_server(target: Target, user: str) -> Iterator[str]:
    with connect(target) as client:
        for page in follow(_listing(client, user), _EVERYTHING):
            yield from (message.content for message in page.items)


def _listing(client: Client, user: str) -> Callable[[int, str], query_service_pb2.ListMessagesResponse]:
    def fetch(page_size: int, cursor: str) -> query_service_pb2.ListMessagesResponse:
        return client.list_messages(user, page_size=page_size, cursor=cursor, role="user")

    return fetch
