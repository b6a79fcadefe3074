"""Validation of BuildContext requests, and their conversion to `ContextRequest`."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from nomemory.recall.context.request import ContextRequest
from nomemory.server.api.validation.checker import EXCLUDED_CONVERSATIONS_MAX, FieldChecker, collect_violations
from nomemory.server.api.validation.recall_requests import decode_current_time, decode_time_zone, decode_turns
from nomemory.server.runtime.settings import Settings
from nomemory.v1 import recall_service_pb2 as pb

_DEFAULT_TOKENS: Final = 2_000
_MIN_TOKENS: Final = 100
_MAX_TOKENS: Final = 32_000


def decode_context(request: pb.BuildContextRequest, settings: Settings, now: datetime) -> ContextRequest:
    """Validate a BuildContextRequest.

    `now` is timezone-aware, and is used if the request does not set the current time.

    Raises:
        Fault: INVALID_FIELD.
    """
    with collect_violations(settings) as checker:
        conversation_id = checker.check_identifier("conversation_id", request.conversation_id, required=False)
        if not (request.turns or conversation_id):
            checker.add_violation("turns", "must not be empty if conversation_id is empty")
        zone = decode_time_zone(checker, "time_zone", request.time_zone)
        excluded_max = EXCLUDED_CONVERSATIONS_MAX - bool(conversation_id)
        return ContextRequest(
            turns=decode_turns(checker, "turns", request.turns),
            conversation_id=conversation_id,
            max_tokens=_check_max_tokens(checker, request.max_tokens),
            now=decode_current_time(checker, "now", request.now if request.HasField("now") else None, zone, now),
            at_least=request.at_least,
            exclude_conversation_ids=checker.check_excluded_conversations(
                "exclude_conversation_ids", request.exclude_conversation_ids, excluded_max
            ),
            max_query_chars=settings.limits.max_query_chars,
        )


def _check_max_tokens(checker: FieldChecker, sent: int) -> int:
    if sent and not _MIN_TOKENS <= sent <= _MAX_TOKENS:
        checker.add_violation("max_tokens", f"must be 0 or from {_MIN_TOKENS} to {_MAX_TOKENS}")
    return sent or _DEFAULT_TOKENS
