"""Where the checks happen: stubs for the server, and users of this run who are erased at its end."""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import grpc

from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import query_service_pb2 as q
from nomemory.v1 import server_service_pb2
from nomemory.v1.ingest_service_pb2_grpc import IngestServiceStub
from nomemory.v1.query_service_pb2_grpc import QueryServiceStub
from nomemory.v1.server_service_pb2_grpc import ServerServiceStub
from proofs.conformance.callers import Reached
from proofs.conformance.dataset import Dataset, Message


@dataclass(slots=True)
class World:
    """One run against one server.

    Attributes:
        users: all that were made; whoever needs another one asks `new_user`.
    """

    reached: Reached
    channel: grpc.Channel
    random: random.Random
    users: list[str] = field(default_factory=list)
    query: QueryServiceStub = field(init=False)
    ingest: IngestServiceStub = field(init=False)
    info: server_service_pb2.GetServerInfoResponse = field(init=False)

    def __post_init__(self) -> None:
        self.query, self.ingest = QueryServiceStub(self.channel), IngestServiceStub(self.channel)
        self.info = ServerServiceStub(self.channel).GetServerInfo(server_service_pb2.GetServerInfoRequest())

    def new_user(self, name: str) -> str:
        """Make up a user whom nobody else has."""
        user_id = f"conformance-{secrets.token_hex(6)}-{name}"
        self.users.append(user_id)
        return user_id

    def dataset(self, name: str, count: int) -> tuple[Dataset, str]:
        """Have a new user say so much; return it, and the write token."""
        dataset = Dataset(self.new_user(name), self.random, self.info.embedding_dimension)
        return dataset, self.write(dataset.say(range(count))).write_token

    def write(
        self, messages: Iterable[Message], *, replace: bool = False, request_id: str = ""
    ) -> i.WriteMessagesResponse:
        """Write messages."""
        return self.ingest.WriteMessages(
            i.WriteMessagesRequest(messages=messages, replace=replace, request_id=request_id)
        )

    def delete(self, user_id: str, **which: object) -> i.DeleteMessagesResponse:
        """Delete messages by ids or by a filter."""
        return self.ingest.DeleteMessages(i.DeleteMessagesRequest(user_id=user_id, **which))  # type: ignore[arg-type]

    def listed(self, user_id: str, page_size: int = 50, **how: object) -> Iterator[Message]:
        """List, page by page."""
        cursor = ""
        while True:
            request = q.ListMessagesRequest(user_id=user_id, page_size=page_size, cursor=cursor, **how)  # type: ignore[arg-type]
            page = self.query.ListMessages(request)
            yield from page.items
            if not (cursor := page.next_cursor):
                return

    def found(self, user_id: str, text: str, page_size: int = 50, **how: object) -> Iterator[tuple[Message, float]]:
        """Search by words, page by page, with the scores."""
        cursor = ""
        while True:
            request = q.LexicalSearchRequest(
                user_id=user_id,
                query_text=text,
                page_size=page_size,
                cursor=cursor,
                **how,  # type: ignore[arg-type]
            )
            page = self.query.LexicalSearch(request)
            scores = {score.message_id: score.score for score in page.scores}
            yield from ((item, scores.get(item.message_id, 0.0)) for item in page.items)
            if not (cursor := page.next_cursor):
                return

    def near(self, user_id: str, values: Iterable[float], **how: object) -> list[tuple[Message, float]]:
        """Search by meaning: everything that the user has, with its score."""
        request = q.SemanticSearchRequest(
            user_id=user_id,
            query_embedding=q.Embedding(values=values),
            top_k=self.info.limits.max_top_k,
            **how,  # type: ignore[arg-type]
        )
        return [(item.message, item.score) for item in self.query.SemanticSearch(request).items]

    def exported(self, user_id: str, **how: object) -> list[Message]:
        """Export."""
        stream = self.query.ExportMessages(q.ExportMessagesRequest(user_id=user_id, **how))  # type: ignore[arg-type]
        return [message for batch in stream for message in batch.messages]

    def counted(self, user_id: str, **how: object) -> int:
        """Count."""
        return self.query.CountMessages(q.CountMessagesRequest(user_id=user_id, **how)).count  # type: ignore[arg-type]

    def erase(self) -> None:
        """Erase all users of this run; try for a while, should the server be away."""
        for user_id in self.users:
            self._erase(user_id)

    def _erase(self, user_id: str) -> None:
        for last in (False, False, True):
            try:
                self.ingest.EraseUser(i.EraseUserRequest(user_id=user_id))
            except grpc.RpcError:
                if last:
                    raise
                time.sleep(1)
            else:
                return


class LeftOutError(Exception):
    """A check cannot be made against this server. The text says why."""


@dataclass(frozen=True, slots=True)
class Check:
    """A promise in words, and what yields a line for each thing that does not hold."""

    name: str
    tried: Callable[[World], Iterator[str]]

    def faults(self, world: World) -> list[str]:
        """Try it; return what does not hold.

        Raises:
            LeftOutError: see there.
        """
        found: list[str] = []
        try:
            found += self.tried(world)
        except grpc.RpcError as error:
            found.append(f"a call failed: {error.code().name}: {error.details()}")
        return found


def refused(call: Callable[[], object], *codes: grpc.StatusCode) -> Iterator[str]:
    """Say so if a call is not refused with one of these codes."""
    wanted = " or ".join(code.name for code in codes)
    try:
        call()
    except grpc.RpcError as error:
        if error.code() not in codes:
            yield f"refused with {error.code().name} in place of {wanted}: {error.details()}"
    else:
        yield f"not refused; {wanted} is due"
