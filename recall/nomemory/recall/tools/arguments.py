"""The tools' arguments. They are read and described (`tool_schema`) from these definitions; none names a user."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from nomemory.recall.model.question import Role
from nomemory.recall.tools.argument_kinds import Moment, Nested, OneRole, Real, Text, Vector, Whole, argument

_PAGE = Whole(1, 500)
_QUERY = Text(2_000)
_CURSOR = Text(8_000)
_SINCE = argument(Moment(), "start, included")
_UNTIL = argument(Moment(), "end, excluded")
_ROLE = argument(OneRole(), "whose messages; any: anybody's")


@dataclass(frozen=True, slots=True)
class Window:
    """A half-open range of times."""

    since: datetime | None = field(default=None, metadata=_SINCE)
    until: datetime | None = field(default=None, metadata=_UNTIL)


@dataclass(frozen=True, slots=True)
class SearchFilter:
    """What a search is narrowed to."""

    role: Role | None = field(default=None, metadata=_ROLE)
    time_range: Window = field(default=Window(), metadata=argument(Nested(Window), "when it was said"))
    conversation_id: str = field(default="", metadata=argument(Text(128), "one conversation only"))


_FILTER = argument(Nested(SearchFilter), "what to narrow the search to")


@dataclass(frozen=True, slots=True)
class ListArguments:
    """Arguments of `messages_list`."""

    since: datetime | None = field(default=None, metadata=_SINCE)
    until: datetime | None = field(default=None, metadata=_UNTIL)
    role: Role | None = field(default=None, metadata=_ROLE)
    page_size: int = field(default=50, metadata=argument(_PAGE, "how many messages at most"))
    cursor: str = field(default="", metadata=argument(_CURSOR, "the next_cursor of the page before, unchanged"))


@dataclass(frozen=True, slots=True)
class LexicalArguments:
    """Arguments of `lexical_search`."""

    query_text: str = field(metadata=argument(_QUERY, 'words, "phrases", AND, OR, NOT, ( )', required=True))
    filter: SearchFilter = field(default=SearchFilter(), metadata=_FILTER)
    page_size: int = field(default=50, metadata=argument(_PAGE, "how many messages at most"))
    cursor: str = field(default="", metadata=argument(_CURSOR, "the next_cursor of the page before, unchanged"))


@dataclass(frozen=True, slots=True)
class SemanticArguments:
    """Arguments of `semantic_search`: exactly one of `query_text` and `query_embedding`."""

    query_text: str = field(default="", metadata=argument(_QUERY, "what to look for, in plain words"))
    query_embedding: tuple[float, ...] = field(
        default=(), metadata=argument(Vector(8_192), "a vector of the server's dimension, instead of query_text")
    )
    filter: SearchFilter = field(default=SearchFilter(), metadata=_FILTER)
    top_k: int = field(default=20, metadata=argument(Whole(1, 200), "how many messages at most"))
    min_score: float | None = field(default=None, metadata=argument(Real(-1, 1), "least cosine"))


@dataclass(frozen=True, slots=True)
class HybridArguments:
    """Arguments of `hybrid_search`."""

    query_text: str = field(metadata=argument(_QUERY, "a question, or words", required=True))
    filter: SearchFilter = field(default=SearchFilter(), metadata=_FILTER)
    top_k: int = field(default=20, metadata=argument(Whole(1, 200), "how many messages at most"))


@dataclass(frozen=True, slots=True)
class NeighborArguments:
    """Arguments of `neighbors`. None: as the host's budget says."""

    message_id: str = field(metadata=argument(Text(128), "the message around which to look", required=True))
    before: int | None = field(default=None, metadata=argument(Whole(0, 200), "how many messages before it"))
    after: int | None = field(default=None, metadata=argument(Whole(0, 200), "how many messages after it"))


Arguments = ListArguments | LexicalArguments | SemanticArguments | HybridArguments | NeighborArguments
