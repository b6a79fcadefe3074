"""Build QueryService requests from tool arguments. The user id comes only from the binding."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from nomemory.recall.model.budget import Budget
from nomemory.recall.model.contract_roles import ROLE_IN_CONTRACT
from nomemory.recall.model.question import Role
from nomemory.recall.tools.argument_parsing import InvalidToolCallError
from nomemory.recall.tools.arguments import (
    EXCLUDED_CONVERSATIONS_MAX,
    HybridArguments,
    LexicalArguments,
    ListArguments,
    NeighborArguments,
    SearchFilter,
    SemanticArguments,
)
from nomemory.recall.tools.query_stub import UserBinding
from nomemory.v1 import message_pb2
from nomemory.v1 import query_service_pb2 as pb

_PROBE_QUERY: Final = "?"


class RequestBuilder:
    """Builds QueryService requests from tool arguments for one user.

    Args:
        binding: the user, the conversation and the write token of every request.
        budget: the limits for the results of a request.
        before: a timezone-aware time. Messages sent at or after this time are not requested.
        embedded: a query text, and the vector that the caller computed for it.
    """

    def __init__(
        self, binding: UserBinding, budget: Budget, before: datetime, embedded: tuple[str, Sequence[float]]
    ) -> None:
        self._binding = binding
        self._budget = budget
        self._before = before.astimezone(UTC)
        self._embedded = embedded

    def build_list_request(self, arguments: ListArguments) -> pb.ListMessagesRequest:
        """Build a request that lists messages by time.

        Raises:
            InvalidToolCallError: the time range is empty, or the filter names a conversation other than the binding's.
                The methods that build search requests also raise this error.
        """
        return pb.ListMessagesRequest(
            **self._build_common_fields(arguments.filter),
            page_size=min(arguments.page_size, self._budget.result_items),
            cursor=arguments.cursor,
        )

    def build_lexical_request(self, arguments: LexicalArguments) -> pb.LexicalSearchRequest:
        """Build a lexical search request."""
        return pb.LexicalSearchRequest(
            **self._build_common_fields(arguments.filter),
            query_text=arguments.query_text,
            page_size=min(arguments.page_size, self._budget.result_items),
            cursor=arguments.cursor,
        )

    def build_semantic_request(self, arguments: SemanticArguments) -> pb.SemanticSearchRequest:
        """Build a semantic search request. If the caller computed a vector for the query text, that vector is used."""
        request = pb.SemanticSearchRequest(
            **self._build_common_fields(arguments.filter),
            top_k=min(arguments.top_k, self._budget.result_items),
            min_score=arguments.min_score,
        )
        if self.has_vector_of_text(arguments.query_text):
            request.query_embedding.values.extend(self._embedded[1])
        elif arguments.query_text:
            request.query_text = arguments.query_text
        else:
            request.query_embedding.values.extend(arguments.query_embedding)
        return request

    def build_hybrid_request(self, arguments: HybridArguments) -> pb.HybridSearchRequest:
        """Build a hybrid search request. If the caller computed a vector for the query text, that vector is used."""
        request = pb.HybridSearchRequest(
            **self._build_common_fields(arguments.filter),
            query_text=arguments.query_text,
            top_k=min(arguments.top_k, max(self._budget.result_items, self._budget.evidence_messages)),
            explain=True,
            include_relations=True,
        )
        if self.has_vector_of_text(arguments.query_text):
            request.query_embedding.values.extend(self._embedded[1])
        return request

    def build_probe_request(self) -> pb.HybridSearchRequest:
        """Build a minimal hybrid search request that reports the lag of both indexes."""
        return self.build_hybrid_request(HybridArguments(query_text=self._embedded[0].strip() or _PROBE_QUERY, top_k=1))

    def has_vector_of_text(self, text: str) -> bool:
        """Return whether the caller computed a vector for this text."""
        embedded_text, vector = self._embedded
        return bool(vector) and embedded_text == text

    def build_neighbors_request(self, arguments: NeighborArguments) -> pb.GetNeighborsRequest:
        """Build a request for the messages around a message."""
        return pb.GetNeighborsRequest(
            user_id=self._binding.user_id,
            message_id=arguments.message_id,
            before=self._budget.neighbors_before if arguments.before is None else arguments.before,
            after=self._budget.neighbors_after if arguments.after is None else arguments.after,
        )

    def _build_common_fields(self, filter_: SearchFilter) -> dict[str, Any]:
        """Return the fields that all search requests have: user, filter and write token."""
        return {
            "user_id": self._binding.user_id,
            "filter": self._build_filter(filter_),
            "at_least": self._binding.at_least,
        }

    def _build_filter(self, filter_: SearchFilter) -> message_pb2.Filter:
        since, until = filter_.time_range.since, filter_.time_range.until
        until = self._before if until is None else min(until, self._before)
        if since is not None and since >= until:
            raise InvalidToolCallError(
                "the time range is empty: messages at or after the time of the question are not searched"
            )
        bound_conversation = self._binding.conversation_id
        if bound_conversation and filter_.conversation_id not in {"", bound_conversation}:
            raise InvalidToolCallError("this recall is restricted to another conversation")
        encoded = message_pb2.Filter(
            role=ROLE_IN_CONTRACT[filter_.role or Role.ANY],
            conversation_id=bound_conversation or filter_.conversation_id,
            exclude_conversation_ids=self._merge_excluded_conversations(filter_),
        )
        encoded.time_range.until.FromDatetime(until)
        if since is not None:
            encoded.time_range.since.FromDatetime(since)
        return encoded

    def _merge_excluded_conversations(self, filter_: SearchFilter) -> list[str]:
        """Return the conversations that the binding and the planner exclude, up to the limit of a filter."""
        conversation_ids = dict.fromkeys((*self._binding.exclude_conversation_ids, *filter_.exclude_conversation_ids))
        return list(conversation_ids)[:EXCLUDED_CONVERSATIONS_MAX]
