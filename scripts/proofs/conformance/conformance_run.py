"""Context of the conformance checks: the server, and the users that the run creates and erases."""

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
from proofs.conformance.callers import ServerConnection
from proofs.conformance.dataset import Dataset, Message


@dataclass(slots=True)
class ConformanceRun:
    """A run of the conformance checks against a server.

    Attributes:
        users: ids of the users that `create_user` created.
    """

    connection: ServerConnection
    channel: grpc.Channel
    random: random.Random
    users: list[str] = field(default_factory=list)
    query: QueryServiceStub = field(init=False)
    ingest: IngestServiceStub = field(init=False)
    info: server_service_pb2.GetServerInfoResponse = field(init=False)

    def __post_init__(self) -> None:
        self.query, self.ingest = QueryServiceStub(self.channel), IngestServiceStub(self.channel)
        self.info = ServerServiceStub(self.channel).GetServerInfo(server_service_pb2.GetServerInfoRequest())

    def create_user(self, name: str) -> str:
        """Return a random user id, which is erased at the end of the run."""
        user_id = f"conformance-{secrets.token_hex(6)}-{name}"
        self.users.append(user_id)
        return user_id

    def write_dataset(self, name: str, count: int) -> tuple[Dataset, str]:
        """Write a dataset of `count` messages for a new user; return the dataset and the write token."""
        dataset = Dataset(self.create_user(name), self.random, self.info.embedding_dimension)
        return dataset, self.write_messages(dataset.create_messages(range(count))).write_token

    def write_messages(
        self, messages: Iterable[Message], *, replace: bool = False, request_id: str = ""
    ) -> i.WriteMessagesResponse:
        """Write messages."""
        return self.ingest.WriteMessages(
            i.WriteMessagesRequest(messages=messages, replace=replace, request_id=request_id)
        )

    def delete_messages(self, user_id: str, **selector: object) -> i.DeleteMessagesResponse:
        """Delete messages by ids or by filter."""
        return self.ingest.DeleteMessages(i.DeleteMessagesRequest(user_id=user_id, **selector))  # type: ignore[arg-type]

    def list_messages(self, user_id: str, page_size: int = 50, **options: object) -> Iterator[Message]:
        """List the messages of a user, page by page."""
        cursor = ""
        while True:
            request = q.ListMessagesRequest(user_id=user_id, page_size=page_size, cursor=cursor, **options)  # type: ignore[arg-type]
            page = self.query.ListMessages(request)
            yield from page.items
            if not (cursor := page.next_cursor):
                return

    def lexical_search(
        self, user_id: str, text: str, page_size: int = 50, **options: object
    ) -> Iterator[tuple[Message, float]]:
        """Yield the messages and scores of all pages of a lexical search."""
        cursor = ""
        while True:
            request = q.LexicalSearchRequest(
                user_id=user_id,
                query_text=text,
                page_size=page_size,
                cursor=cursor,
                **options,  # type: ignore[arg-type]
            )
            page = self.query.LexicalSearch(request)
            scores = {score.message_id: score.score for score in page.scores}
            yield from ((item, scores.get(item.message_id, 0.0)) for item in page.items)
            if not (cursor := page.next_cursor):
                return

    def semantic_search(self, user_id: str, values: Iterable[float], **options: object) -> list[tuple[Message, float]]:
        """Return the messages and scores of a semantic search with the maximum top_k."""
        request = q.SemanticSearchRequest(
            user_id=user_id,
            query_embedding=q.Embedding(values=values),
            top_k=self.info.limits.max_top_k,
            **options,  # type: ignore[arg-type]
        )
        return [(item.message, item.score) for item in self.query.SemanticSearch(request).items]

    def export_messages(self, user_id: str, **options: object) -> list[Message]:
        """Export all messages of a user."""
        stream = self.query.ExportMessages(q.ExportMessagesRequest(user_id=user_id, **options))  # type: ignore[arg-type]
        return [message for batch in stream for message in batch.messages]

    def count_messages(self, user_id: str, **options: object) -> int:
        """Return the number of messages of a user."""
        return self.query.CountMessages(q.CountMessagesRequest(user_id=user_id, **options)).count  # type: ignore[arg-type]

    def erase_users(self) -> None:
        """Erase all users of this run, with retries."""
        for user_id in self.users:
            self._erase_user(user_id)

    def _erase_user(self, user_id: str) -> None:
        for last in (False, False, True):
            try:
                self.ingest.EraseUser(i.EraseUserRequest(user_id=user_id))
            except grpc.RpcError:
                if last:
                    raise
                time.sleep(1)
            else:
                return


class CheckSkippedError(Exception):
    """Raised if a check is not possible on this server; the text states the reason."""


@dataclass(frozen=True, slots=True)
class ConformanceCheck:
    """A check of one guarantee of the API.

    Attributes:
        function: function that yields a line for each violation.
    """

    name: str
    function: Callable[[ConformanceRun], Iterator[str]]

    def find_violations(self, run: ConformanceRun) -> list[str]:
        """Run the check; return its violations.

        Raises:
            CheckSkippedError: the check is not possible on this server.
        """
        violations: list[str] = []
        try:
            violations += self.function(run)
        except grpc.RpcError as error:
            violations.append(f"a call failed: {error.code().name}: {error.details()}")
        return violations


def expect_error(call: Callable[[], object], *codes: grpc.StatusCode) -> Iterator[str]:
    """Yield a line if a call does not fail with one of the given status codes."""
    expected = " or ".join(code.name for code in codes)
    try:
        call()
    except grpc.RpcError as error:
        if error.code() not in codes:
            yield f"expected {expected}, got {error.code().name}: {error.details()}"
    else:
        yield f"expected {expected}, got no error"
