"""A fake QueryService that records its requests and returns listed messages, errors or nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import grpc
from google.protobuf.message import Message
from grpc.aio import AioRpcError, Metadata

from nomemory.v1 import message_pb2
from nomemory.v1 import query_service_pb2 as pb

REPLIES: dict[str, type[Message]] = {
    "ListMessages": pb.ListMessagesResponse,
    "LexicalSearch": pb.LexicalSearchResponse,
    "SemanticSearch": pb.SemanticSearchResponse,
    "HybridSearch": pb.HybridSearchResponse,
    "GetNeighbors": pb.GetNeighborsResponse,
    "BatchGetMessages": pb.BatchGetMessagesResponse,
}


class ScriptedQuery:
    """Has the methods of a stub.

    `failing` maps a method to its status code; `hangs` names a method that waits until its timeout, as with grpc.
    Without semantic search, the ranking is lexical. `coverage` is the share of the question terms in each message,
    `sufficiency` the estimate of each response, and `speaker_matched` its flag. `relations` are the related pairs per
    call.
    """

    def __init__(
        self,
        messages: Sequence[message_pb2.ChatMessage] = (),
        failing: dict[str, grpc.StatusCode] | None = None,
        hangs: str = "",
        *,
        coverage: float = 0.5,
        sufficiency: float = 0.5,
        speaker_matched: bool = False,
        relations: Sequence[Sequence[tuple[str, str]]] = (),
    ) -> None:
        self.requests: list[Any] = []
        self.metadata: list[tuple[tuple[str, str], ...]] = []
        self.cancelled = 0
        self.hanging = asyncio.Event()
        self._messages = messages
        self._failing = failing or {}
        self._hangs = hangs
        self._coverage = coverage
        self._sufficiency = sufficiency
        self._told_apart = speaker_matched
        self._relations = list(relations)
        self.ListMessages = self._method("ListMessages")
        self.LexicalSearch = self._method("LexicalSearch")
        self.SemanticSearch = self._method("SemanticSearch")
        self.HybridSearch = self._method("HybridSearch")
        self.GetNeighbors = self._method("GetNeighbors")
        self.BatchGetMessages = self._method("BatchGetMessages")

    def methods(self) -> list[str]:
        """Return the names of the called methods in order."""
        return [type(request).__name__.removesuffix("Request") for request in self.requests]

    def _method(self, name: str) -> Callable[..., Awaitable[Any]]:
        async def call(request: Message, /, *, timeout: float, metadata: Sequence[tuple[str, str]]) -> Message:  # noqa: ASYNC109 - the form of a stub
            self.requests.append(request)
            self.metadata.append(tuple(metadata))
            if name == self._hangs:
                await self._hang(timeout)
            if code := self._failing.get(name):
                raise AioRpcError(code, Metadata(), Metadata(), "as the test wants it")
            return self._reply(name)

        return call

    async def _hang(self, within_s: float) -> None:
        self.hanging.set()
        try:
            async with asyncio.timeout(within_s):
                await asyncio.Event().wait()
        except TimeoutError as error:
            raise AioRpcError(grpc.StatusCode.DEADLINE_EXCEEDED, Metadata(), Metadata(), "too late") from error
        except asyncio.CancelledError:
            self.cancelled += 1
            raise

    def _reply(self, name: str) -> Message:
        reply: Any = REPLIES[name]()
        if name == "SemanticSearch":
            for index, message in enumerate(self._messages):
                reply.items.add(message=message, score=1 - index / 100)
        elif name == "HybridSearch":
            self._rank(reply)
        else:
            reply.items.extend(self._messages)
        if name == "LexicalSearch":
            for index, message in enumerate(self._messages):
                reply.scores.add(message_id=message.message_id, score=float(-index))
        return reply  # type: ignore[no-any-return]  # the protobuf types are looked up by name

    def _rank(self, reply: pb.HybridSearchResponse) -> None:
        for index, message in enumerate(self._messages):
            item = reply.items.add(message=message, score=1 - index / 100)
            item.explanation.coverage = self._coverage
        reply.sufficiency = self._sufficiency if self._messages else 0.0
        reply.speaker_matched = self._told_apart
        for earlier, later in self._relations.pop(0) if self._relations else ():
            reply.relations.add(
                earlier_message_id=earlier, later_message_id=later, semantic_z_score=4.0, shared_terms=0.9
            )
        reply.semantic_unavailable = reply.sufficiency_lexical_only = "SemanticSearch" in {*self._failing, self._hangs}
