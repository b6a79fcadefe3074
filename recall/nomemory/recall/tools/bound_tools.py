"""Search tools that are bound to one user. No tool argument can select another user."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

import grpc
import structlog
from opentelemetry.trace import Span

from nomemory.recall.model.budget import Budget
from nomemory.recall.model.question import Role
from nomemory.recall.model.search_scope import SearchScope
from nomemory.recall.model.step import JsonValue
from nomemory.recall.model.sufficiency import Sufficiency
from nomemory.recall.tools.argument_parsing import InvalidToolCallError, find_unknown_arguments, parse_arguments
from nomemory.recall.tools.arguments import (
    Arguments,
    HybridArguments,
    LexicalArguments,
    ListArguments,
    NeighborArguments,
    SearchFilter,
    SemanticArguments,
)
from nomemory.recall.tools.definitions import CALLABLE_TOOLS, TOOLS
from nomemory.recall.tools.identity_guard import remove_user_ids
from nomemory.recall.tools.query_stub import (
    EmbeddingRejectedError,
    IndexLaggingError,
    QueryServiceUnavailableError,
    QueryStub,
    UserBinding,
    WriteTokenRejectedError,
)
from nomemory.recall.tools.requests import RequestBuilder
from nomemory.recall.tools.result import (
    Hit,
    ToolResult,
    decode_hit,
    decode_message,
    decode_relation,
    limit_hits_to_budget,
)
from nomemory.recall.tools.service_error import ServiceError, decode_service_error
from nomemory.spans.span import is_content_shown, set_content_attribute, start_child_span
from nomemory.text.time_range import TimeRange
from nomemory.v1 import error_reason_pb2, message_pb2
from nomemory.v1 import query_service_pb2 as pb

_log = structlog.get_logger()

_TRANSIENT: Final = frozenset(
    {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.RESOURCE_EXHAUSTED}
)
_EMBEDDER_FAILURE: Final = frozenset({grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN})
"""Status codes of embedder failures. Lexical search still works after such a failure."""
_INVALID_CALL: Final = frozenset({grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND})
_VECTOR: Final = "query_embedding.values"
"""The API field for the caller's vector."""
_AT_LEAST: Final = "at_least"
"""The API field for the caller's write token."""
_INDEX_LAGGING: Final = error_reason_pb2.ErrorReason.Name(error_reason_pb2.ERROR_REASON_INDEX_LAGGING)
_COVERAGE_ITEMS: Final = 3
SEMANTIC_DISABLED: Final = "meaning cannot be searched"
"""Observation text for a semantic search that fails because semantic search is unavailable."""


class _SemanticDisabledError(InvalidToolCallError):
    """Semantic search was requested, but it is unavailable."""


class BoundTools:
    """Search tools for the messages of one user, which call the QueryService.

    Args:
        binding: the user, the conversation and the write token of every request.
        budget: the limits for the results of a call.
        before: a timezone-aware time. Messages sent at or after this time are never returned.
        metadata: gRPC metadata to send with every call, such as the service's API key.
        embedded: a query text, and the vector that the caller computed for it.
    """

    def __init__(
        self,
        binding: UserBinding,
        stub: QueryStub,
        budget: Budget,
        before: datetime,
        metadata: Sequence[tuple[str, str]] = (),
        embedded: tuple[str, Sequence[float]] = ("", ()),
    ) -> None:
        self._requests = RequestBuilder(binding, budget, before, embedded)
        self._binding = binding
        self._must_wait = bool(binding.at_least)
        self._stub = stub
        self._budget = budget
        self._before = before
        self._metadata = tuple(metadata)
        self._has_semantic_search = True
        self._response_count = 0
        self._failed_call_types: set[type[Arguments]] = set()

    @property
    def has_semantic_search(self) -> bool:
        """Whether semantic search is available: false if the server has no embedder or a semantic search timed out."""
        return self._has_semantic_search

    @property
    def is_unreachable(self) -> bool:
        """Whether no call has succeeded and a call other than a semantic search has failed."""
        return not self._response_count and bool(self._failed_call_types - {SemanticArguments})

    def check_reachable(self) -> None:
        """Raise an error if calls were made and none succeeded.

        Raises:
            QueryServiceUnavailableError: all calls failed.
        """
        if self._failed_call_types and not self._response_count:
            raise QueryServiceUnavailableError("all calls to the QueryService failed: retry later")

    async def wait_for_write(self, timeout_s: float) -> None:
        """Wait until both indexes have reached the write token of the binding, if there is one.

        Raises:
            WriteTokenRejectedError: the token belongs to another message log.
            IndexLaggingError: the indexes did not reach the token in time.
        """
        if self._must_wait:
            await self._probe_indexes(timeout_s)
            self._must_wait = False

    async def is_index_lagging(self, timeout_s: float) -> bool:
        """Return whether some of the user's stored messages are not searchable yet; False if unknown."""
        reply = await self._probe_indexes(timeout_s)
        return reply is not None and reply.index_lagging

    async def _probe_indexes(self, timeout_s: float) -> pb.HybridSearchResponse | None:
        try:
            return await self._stub.HybridSearch(
                self._requests.build_probe_request(), timeout=timeout_s, metadata=self._metadata
            )
        except grpc.RpcError as error:
            _raise_for_write_token(decode_service_error(error))
            return None

    async def call(self, tool: str, arguments: Mapping[str, JsonValue], timeout_s: float) -> ToolResult:
        """Call a tool with a planner's arguments. If the call is invalid, the result's observation states the reason.

        Raises:
            QueryServiceUnavailableError: the service rejects all reads.
            EmbeddingRejectedError: the service rejected the caller's vector.
            WriteTokenRejectedError: the service rejected the caller's write token.
            IndexLaggingError: the indexes did not reach the write token in time.
        """
        cleaned, dropped = remove_user_ids(arguments)
        definition = CALLABLE_TOOLS.get(tool)
        name = definition.name if definition else "unknown"  # A chat model may have invented any other name.
        if dropped:
            _log.warning("user ids removed from tool arguments", tool=name, count=dropped)
        with start_child_span(f"execute_tool {name}") as tool_span:
            if definition is None:
                result = ToolResult(
                    observation=f"there is no such tool: use one of {', '.join(TOOLS)}", succeeded=False
                )
            else:
                result = await self._parse_and_call(definition.arguments, cleaned, timeout_s)
            if tool_span is not None:
                _record_result(tool_span, name, result)
        notes = [result.observation]
        if dropped:
            notes.append(f"{dropped} argument(s) that name a user were dropped: the user is bound")
        if definition and (ignored := sum(1 for _ in find_unknown_arguments(definition.arguments, cleaned))):
            notes.append(f"{ignored} unknown argument(s) were ignored")
        return replace(result, dropped_arguments=dropped, observation="; ".join(notes))

    async def _parse_and_call(
        self, type_: type[Arguments], arguments: Mapping[str, JsonValue], timeout_s: float
    ) -> ToolResult:
        """Parse the arguments, and call the tool.

        If the arguments are invalid, the result's observation states the reason.
        """
        try:
            parsed = parse_arguments(type_, arguments, self._before.tzinfo)
            result = await self._call_service(parsed, timeout_s)
        except InvalidToolCallError as error:
            return ToolResult(
                observation=f"not called: {error}",
                succeeded=False,
                semantic_disabled=isinstance(error, _SemanticDisabledError),
            )
        return replace(result, arguments=self._format_arguments(parsed))

    def _format_arguments(self, arguments: Arguments) -> dict[str, JsonValue]:
        """Return the arguments to show in a step, including the conversation of the binding."""
        shown: dict[str, JsonValue] = arguments.model_dump(mode="json", exclude_unset=True)
        if self._binding.conversation_id:
            filter_fields = shown.get("filter")
            (filter_fields if isinstance(filter_fields, dict) else shown)["conversation_id"] = (
                self._binding.conversation_id
            )
        return shown

    async def _call_service(self, arguments: Arguments, timeout_s: float) -> ToolResult:
        try:
            result = await self._dispatch_call(arguments, timeout_s)
        except grpc.RpcError as error:
            return self._convert_error(error, arguments)
        self._response_count += 1
        return result

    async def _dispatch_call(self, arguments: Arguments, timeout_s: float) -> ToolResult:
        if isinstance(arguments, ListArguments):
            return await self._list_messages(arguments, timeout_s)
        if isinstance(arguments, LexicalArguments):
            return await self._search_lexically(arguments, timeout_s)
        if isinstance(arguments, SemanticArguments):
            return await self._search_semantically(arguments, timeout_s)
        if isinstance(arguments, HybridArguments):
            return await self._search_hybrid(arguments, timeout_s)
        return await self._read_neighbors(arguments, timeout_s)

    async def _list_messages(self, arguments: ListArguments, timeout_s: float) -> ToolResult:
        request = self._requests.build_list_request(arguments)
        reply = await self._stub.ListMessages(request, timeout=timeout_s, metadata=self._metadata)
        hits = self._drop_inaccessible_hits(Hit(decode_message(item), 0.0) for item in reply.items)
        return self._build_result(hits, arguments.filter, next_cursor=reply.next_cursor)

    async def _search_lexically(self, arguments: LexicalArguments, timeout_s: float) -> ToolResult:
        request = self._requests.build_lexical_request(arguments)
        reply = await self._stub.LexicalSearch(request, timeout=timeout_s, metadata=self._metadata)
        scored = zip(reply.items, reply.scores, strict=True)
        hits = self._drop_inaccessible_hits(Hit(decode_message(item), score.score) for item, score in scored)
        return self._build_result(
            hits, arguments.filter, next_cursor=reply.next_cursor, index_lagging=reply.index_lagging
        )

    async def _search_semantically(self, arguments: SemanticArguments, timeout_s: float) -> ToolResult:
        if bool(arguments.query_text.strip()) == bool(arguments.query_embedding):
            raise InvalidToolCallError("give exactly one of query_text and query_embedding")
        if (
            arguments.query_text
            and not self._has_semantic_search
            and not self._requests.has_vector_of_text(arguments.query_text)
        ):
            raise _SemanticDisabledError(SEMANTIC_DISABLED)
        request = self._requests.build_semantic_request(arguments)
        reply = await self._stub.SemanticSearch(request, timeout=timeout_s, metadata=self._metadata)
        hits = self._drop_inaccessible_hits(Hit(decode_message(item.message), item.score) for item in reply.items)
        return self._build_result(hits, arguments.filter, index_lagging=reply.index_lagging, truncated=reply.truncated)

    async def _search_hybrid(self, arguments: HybridArguments, timeout_s: float) -> ToolResult:
        request = self._requests.build_hybrid_request(arguments)
        reply = await self._stub.HybridSearch(request, timeout=timeout_s, metadata=self._metadata)
        hits = self._drop_inaccessible_hits(map(decode_hit, reply.items))
        result = self._build_result(
            hits, arguments.filter, index_lagging=reply.index_lagging, truncated=reply.truncated, is_ranking=True
        )
        coverages = [item.explanation.coverage for item in reply.items]
        self._has_semantic_search &= not reply.semantic_unavailable
        self._must_wait = False
        semantic_unavailable = (
            "; semantic search is unavailable: only lexical search was used" if reply.semantic_unavailable else ""
        )
        return replace(
            result,
            observation=result.observation + semantic_unavailable,
            word_hit_count=sum(1 for share in coverages if share > 0),
            query_coverage=max(coverages[:_COVERAGE_ITEMS], default=0.0),
            semantic_unavailable=reply.semantic_unavailable,
            semantic_disabled=reply.semantic_unavailable,
            sufficiency=Sufficiency(reply.sufficiency, reply.speaker_matched, reply.sufficiency_lexical_only)
            if hits
            else None,
            relations=tuple(map(decode_relation, reply.relations)),
            empty_time_ranges=tuple(map(_to_time_range, reply.empty_time_ranges)),
        )

    async def _read_neighbors(self, arguments: NeighborArguments, timeout_s: float) -> ToolResult:
        request = self._requests.build_neighbors_request(arguments)
        reply = await self._stub.GetNeighbors(request, timeout=timeout_s, metadata=self._metadata)
        hits = self._drop_inaccessible_hits(Hit(decode_message(item), 0.0) for item in reply.items)
        # If the result exceeds the budget, the messages nearest to the anchor are kept.
        nearest = sorted(hits, key=_build_distance_key(reply.anchor_index, [item.message_id for item in reply.items]))
        result = self._build_result(nearest, None, truncated=reply.truncated_before or reply.truncated_after)
        kept = sorted(result.items, key=lambda hit: (hit.message.ts, hit.message.message_id.encode()))
        return replace(result, items=tuple(kept))

    def _drop_inaccessible_hits(self, hits: Iterable[Hit]) -> list[Hit]:
        """Remove messages that were sent at or after `before`, or in a conversation that the binding does not allow."""
        admits = self._binding.allows_conversation
        return [hit for hit in hits if hit.message.ts < self._before and admits(hit.message.conversation_id)]

    def _build_result(
        self,
        hits: Sequence[Hit],
        filter_: SearchFilter | None,
        *,
        next_cursor: str = "",
        index_lagging: bool = False,
        truncated: bool = False,
        is_ranking: bool = False,
    ) -> ToolResult:
        """Build the result of a tool call.

        Rankings may have more messages than the budget allows, because the recall itself needs all messages.
        """
        kept = list(hits) if is_ranking else limit_hits_to_budget(hits, self._budget)
        notes = [f"{len(kept)} messages"]
        if omitted_count := len(hits) - len(kept):
            notes.append(f"{omitted_count} more were cut to fit the budget")
        if index_lagging:
            notes.append("the index is behind: some stored messages were not searchable yet")
        if next_cursor:
            notes.append("there are more")
        return ToolResult(
            items=tuple(kept),
            next_cursor=next_cursor,
            index_lagging=index_lagging,
            truncated=truncated or omitted_count > 0,
            observation="; ".join(notes),
            scope=_to_scope(filter_).exclude_future(self._before) if filter_ else None,
        )

    def _convert_error(self, raised: grpc.RpcError, arguments: Arguments) -> ToolResult:
        """Convert a gRPC error to a failed result; raise an exception if all further calls would also fail."""
        error, is_semantic = decode_service_error(raised), isinstance(arguments, SemanticArguments)
        _raise_for_write_token(error)
        if self._has_caller_vector(arguments) and _VECTOR in error.violations:
            raise EmbeddingRejectedError(error.violations[_VECTOR]) from raised
        if error.code in _INVALID_CALL:
            self._response_count += 1
            return ToolResult(observation=f"refused: {error.details}", succeeded=False)
        if error.code is grpc.StatusCode.FAILED_PRECONDITION and is_semantic:
            self._response_count += 1
            self._has_semantic_search = False
            observation = f"{SEMANTIC_DISABLED}: the server has no embedder"
            return ToolResult(observation=observation, succeeded=False, semantic_disabled=True)
        if error.code in _TRANSIENT or (error.code in _EMBEDDER_FAILURE and is_semantic):
            return self._record_missing_response(error, arguments)
        raise QueryServiceUnavailableError(
            f"a call to the QueryService failed with the status {error.code.name}"
        ) from raised

    def _has_caller_vector(self, arguments: Arguments) -> bool:
        """Return whether a request contains the caller's vector rather than a planner's."""
        if not isinstance(arguments, HybridArguments | SemanticArguments):
            return False
        return self._requests.has_vector_of_text(arguments.query_text)

    def _record_missing_response(self, error: ServiceError, arguments: Arguments) -> ToolResult:
        self._failed_call_types.add(type(arguments))
        observation = f"did not answer ({error.code.name.lower()})"
        timed_out = error.code is grpc.StatusCode.DEADLINE_EXCEEDED and isinstance(arguments, SemanticArguments)
        if timed_out:
            self._has_semantic_search = False
            observation = f"{observation}: {SEMANTIC_DISABLED}"
        return ToolResult(observation=observation, succeeded=False, semantic_disabled=timed_out)


def _record_result(tool_span: Span, name: str, result: ToolResult) -> None:
    """Set span attributes for a tool call according to the OpenTelemetry conventions for generative AI."""
    tool_span.set_attributes(
        {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.type": "datastore",
            "gen_ai.memory.record.count": len(result.items),
            "nomemory.tool.answered": result.succeeded,
        }
    )
    if is_content_shown():
        set_content_attribute(
            tool_span, "gen_ai.tool.call.arguments", json.dumps(dict(result.arguments), ensure_ascii=False)
        )


def _raise_for_write_token(error: ServiceError) -> None:
    """Raise an exception if the QueryService rejected the write token or timed out waiting for it."""
    if _AT_LEAST in error.violations:
        raise WriteTokenRejectedError(error.violations[_AT_LEAST])
    if error.reason == _INDEX_LAGGING:
        raise IndexLaggingError(error.details)


def _build_distance_key(anchor: int, ids: Sequence[str]) -> Callable[[Hit], int]:
    distances = {message_id: abs(index - anchor) for index, message_id in enumerate(ids)}
    return lambda hit: distances[hit.message.message_id]


def _to_scope(filter_: SearchFilter) -> SearchScope:
    return SearchScope(TimeRange(filter_.time_range.since, filter_.time_range.until), filter_.role or Role.ANY)


def _to_time_range(encoded: message_pb2.TimeRange) -> TimeRange:
    return TimeRange(
        encoded.since.ToDatetime(UTC) if encoded.HasField("since") else None,
        encoded.until.ToDatetime(UTC) if encoded.HasField("until") else None,
    )
