"""Requests of the QueryService, built from the one binding: no argument can name another user."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from google.protobuf.timestamp_pb2 import Timestamp

from nomemory.recall.model.budget import Budget
from nomemory.recall.model.question import Role
from nomemory.recall.model.search_scope import ROLE_IN_CONTRACT
from nomemory.recall.tools.arguments import (
    HybridArguments,
    LexicalArguments,
    ListArguments,
    NeighborArguments,
    SearchFilter,
    SemanticArguments,
    ToolRefusedError,
    Window,
)
from nomemory.recall.tools.query_stub import Binding
from nomemory.v1 import message_pb2
from nomemory.v1 import query_service_pb2 as pb

_ANYTHING: Final = "?"


class RequestBuilder:
    """Makes requests for one user, within the host's budget, that end before a time.

    Args:
        binding: whose messages are asked for, of which conversation, and after which write.
        budget: bounds what a request may bring.
        before: an aware time; nothing said at or after it is asked for.
        embedded: a text that a planner may search for, and the caller's own vector of it.
    """

    def __init__(
        self, binding: Binding, budget: Budget, before: datetime, embedded: tuple[str, Sequence[float]]
    ) -> None:
        self._user_id = binding.user_id
        self._conversation_id = binding.conversation_id
        self._at_least = binding.at_least
        self._budget = budget
        self._before = before
        self._embedded = embedded

    def listing(self, asked: ListArguments) -> pb.ListMessagesRequest:
        """Ask for messages by time.

        Raises:
            ToolRefusedError: as for all searches: the time range is empty, or another conversation is asked for than
                the one to which the recall is confined.
        """
        return pb.ListMessagesRequest(
            user_id=self._user_id,
            filter=self._filter(listed_filter(asked)),
            page_size=min(asked.page_size, self._budget.result_items),
            cursor=asked.cursor,
            at_least=self._at_least,
        )

    def lexical(self, asked: LexicalArguments) -> pb.LexicalSearchRequest:
        """Ask for words."""
        return pb.LexicalSearchRequest(
            user_id=self._user_id,
            query_text=asked.query_text,
            filter=self._filter(asked.filter),
            page_size=min(asked.page_size, self._budget.result_items),
            cursor=asked.cursor,
            at_least=self._at_least,
        )

    def semantic(self, asked: SemanticArguments) -> pb.SemanticSearchRequest:
        """Ask for what means the same as a text or lies near a vector, which may be the caller's own of the text."""
        request = pb.SemanticSearchRequest(
            user_id=self._user_id,
            filter=self._filter(asked.filter),
            top_k=min(asked.top_k, self._budget.result_items),
            min_score=asked.min_score,
            at_least=self._at_least,
        )
        if self.has_vector_of(asked.query_text):
            request.query_embedding.values.extend(self._embedded[1])
        elif asked.query_text:
            request.query_text = asked.query_text
        else:
            request.query_embedding.values.extend(asked.query_embedding)
        return request

    def hybrid(self, asked: HybridArguments) -> pb.HybridSearchRequest:
        """Ask for what answers a question; the caller's vector goes with the text that it is of."""
        request = pb.HybridSearchRequest(
            user_id=self._user_id,
            query_text=asked.query_text,
            filter=self._filter(asked.filter),
            top_k=min(asked.top_k, max(self._budget.result_items, self._budget.evidence_messages)),
            explain=True,
            at_least=self._at_least,
            relate=True,
        )
        if self.has_vector_of(asked.query_text):
            request.query_embedding.values.extend(self._embedded[1])
        return request

    def probe(self) -> pb.HybridSearchRequest:
        """Ask for as little as can be of what looks at both indexes: how far they are comes with the answer."""
        return self.hybrid(HybridArguments(query_text=self._embedded[0].strip() or _ANYTHING, top_k=1))

    def has_vector_of(self, text: str) -> bool:
        """Return whether the caller's own vector is of this text."""
        own, vector = self._embedded
        return bool(vector) and own == text

    def around(self, asked: NeighborArguments) -> pb.GetNeighborsRequest:
        """Ask for the messages around one."""
        return pb.GetNeighborsRequest(
            user_id=self._user_id,
            message_id=asked.message_id,
            before=self._budget.neighbors_before if asked.before is None else asked.before,
            after=self._budget.neighbors_after if asked.after is None else asked.after,
        )

    def _filter(self, wanted: SearchFilter) -> message_pb2.Filter:
        since, until = wanted.time_range.since, wanted.time_range.until
        until = self._before if until is None else min(until, self._before)
        if since is not None and since >= until:
            raise ToolRefusedError("the time range is empty: nothing is looked at from the time of the question on")
        role = ROLE_IN_CONTRACT[wanted.role or Role.ANY]
        encoded = message_pb2.Filter(role=role, conversation_id=self._conversation(wanted))
        encoded.time_range.until.CopyFrom(_timestamp(until))
        if since is not None:
            encoded.time_range.since.CopyFrom(_timestamp(since))
        return encoded

    def _conversation(self, wanted: SearchFilter) -> str:
        if self._conversation_id and wanted.conversation_id not in {"", self._conversation_id}:
            raise ToolRefusedError("this recall is confined to another conversation")
        return self._conversation_id or wanted.conversation_id


def listed_filter(asked: ListArguments) -> SearchFilter:
    """Return the role and the times of a listing as a filter."""
    return SearchFilter(role=asked.role, time_range=Window(since=asked.since, until=asked.until))


def _timestamp(moment: datetime) -> Timestamp:
    encoded = Timestamp()
    encoded.FromDatetime(moment.astimezone(UTC))
    return encoded
