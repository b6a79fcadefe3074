"""What the calls of both clients take by keyword."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict

from nomemory.client.messages import Moment, RoleName


class Narrowing(TypedDict, total=False):
    """The filter of a read. Absent or None: no filter.

    `since` is inclusive, `until` exclusive; both need a time zone. `metadata` has up to 4 entries that a message must
    have.
    """

    since: Moment | None
    until: Moment | None
    role: RoleName | None
    conversation_id: str | None
    metadata: Mapping[str, str] | None


class Reading(TypedDict, total=False):
    """Options of every read: the fields to return (all by default), and a write token whose write must be seen."""

    return_fields: Sequence[str] | None
    at_least: str


class Paging(Narrowing, Reading, total=False):
    """What listings of messages take: 1 to 500 messages a page (50 by default), from a `next_cursor` on."""

    page_size: int
    cursor: str


class ListOptions(Paging, total=False):
    """The options of `list_messages`: newest first, unless `oldest_first` is set."""

    oldest_first: bool


class LexicalOptions(Paging, total=False):
    """The options of `lexical_search`. `snippet_chars` (1 to 1,000; 0: the server's default) asks for highlights."""

    snippet_chars: int | None


class SemanticOptions(Narrowing, Reading, total=False):
    """The options of `semantic_search`: at most `top_k` messages (20 by default), of at least `min_score`."""

    top_k: int
    min_score: float | None


class HybridOptions(Narrowing, Reading, total=False):
    """The options of `hybrid_search`: at most `top_k` messages (20 by default), each explained if `explain` is set.

    `embedding` is the caller's own vector of the question.
    """

    top_k: int
    explain: bool
    embedding: Sequence[float] | None


class NeighborOptions(TypedDict, total=False):
    """The options of `neighbors`: how many messages before (20 by default) and after (none by default)."""

    before: int | None
    after: int | None
    return_fields: Sequence[str] | None


class Turn(TypedDict):
    """One turn of a conversation in progress: who speaks, and what they say (at most 4,000 characters)."""

    role: RoleName
    text: str


class RecallOptions(TypedDict, total=False):
    """Where a recall starts, and with what. The search may go beyond `since`, `until` and `role`.

    Times need a time zone; `time_zone` is an IANA name. `question_embedding` is the caller's own vector of the
    question, of the server's dimension.

    `conversation_id` confines the recall to one conversation. `turns` are the last turns of the conversation in
    progress, oldest first, at most 20; with them the question may be empty. `at_least` is a write token: the recall
    waits until that write can be found. `evidence_messages` is how many messages the evidence may have, at most 50; 0:
    as many as the server gives by default.
    """

    since: Moment | None
    until: Moment | None
    role: RoleName | None
    now: Moment | None
    time_zone: str
    skill: str
    question_embedding: Sequence[float] | None
    conversation_id: str | None
    turns: Sequence[Turn]
    at_least: str
    evidence_messages: int
