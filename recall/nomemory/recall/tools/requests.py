"""Requests of the QueryService, built from the one binding: no argument can name another user."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from nomemory.recall.model.budget import Budget
from nomemory.recall.model.contract_roles import ROLE_IN_CONTRACT
from nomemory.recall.model.question import Role
from nomemory.recall.tools.argument_parsing import ToolRefusedError
from nomemory.recall.tools.arguments import (
    EXCLUDED_CONVERSATIONS_MAX,
    HybridArguments,
    LexicalArguments,
    ListArguments,
    NeighborArguments,
    SearchFilter,
    SemanticArguments,
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
        self._binding = binding
        self._budget = budget
        self._before = before.astimezone(UTC)
        self._embedded = embedded

    def listing(self, asked: ListArguments) -> pb.ListMessagesRequest:
        """Ask for messages by time.

        Raises:
            ToolRefusedError: as for all searches: the time range is empty, or another conversation is asked for than
                the one to which the recall is confined.
        """
        return pb.ListMessagesRequest(
            **self._narrowed(asked.filter),
            page_size=min(asked.page_size, self._budget.result_items),
            cursor=asked.cursor,
        )

    def lexical(self, asked: LexicalArguments) -> pb.LexicalSearchRequest:
        """Ask for words."""
        return pb.LexicalSearchRequest(
            **self._narrowed(asked.filter),
            query_text=asked.query_text,
            page_size=min(asked.page_size, self._budget.result_items),
            cursor=asked.cursor,
        )

    def semantic(self, asked: SemanticArguments) -> pb.SemanticSearchRequest:
        """Ask for what means the same as a text or lies near a vector, which may be the caller's own of the text."""
        request = pb.SemanticSearchRequest(
            **self._narrowed(asked.filter),
            top_k=min(asked.top_k, self._budget.result_items),
            min_score=asked.min_score,
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
            **self._narrowed(asked.filter),
            query_text=asked.query_text,
            top_k=min(asked.top_k, max(self._budget.result_items, self._budget.evidence_messages)),
            explain=True,
            include_relations=True,
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
            user_id=self._binding.user_id,
            message_id=asked.message_id,
            before=self._budget.neighbors_before if asked.before is None else asked.before,
            after=self._budget.neighbors_after if asked.after is None else asked.after,
        )

    def _narrowed(self, wanted: SearchFilter) -> dict[str, Any]:
        """Return what all searches have: the one user, a filter, and the write to wait for."""
        return {
            "user_id": self._binding.user_id,
            "filter": self._filter(wanted),
            "at_least": self._binding.at_least,
        }

    def _filter(self, wanted: SearchFilter) -> message_pb2.Filter:
        since, until = wanted.time_range.since, wanted.time_range.until
        until = self._before if until is None else min(until, self._before)
        if since is not None and since >= until:
            raise ToolRefusedError("the time range is empty: nothing is looked at from the time of the question on")
        own = self._binding.conversation_id
        if own and wanted.conversation_id not in {"", own}:
            raise ToolRefusedError("this recall is confined to another conversation")
        encoded = message_pb2.Filter(
            role=ROLE_IN_CONTRACT[wanted.role or Role.ANY],
            conversation_id=own or wanted.conversation_id,
            exclude_conversation_ids=self._excluded(wanted),
        )
        encoded.time_range.until.FromDatetime(until)
        if since is not None:
            encoded.time_range.since.FromDatetime(since)
        return encoded

    def _excluded(self, wanted: SearchFilter) -> list[str]:
        """Return the binding's excluded conversations, then as many of the planner's as a filter holds."""
        both = dict.fromkeys((*self._binding.exclude_conversation_ids, *wanted.exclude_conversation_ids))
        return list(both)[:EXCLUDED_CONVERSATIONS_MAX]
