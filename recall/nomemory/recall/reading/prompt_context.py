"""Messages that a chat model reads in one recall, with short labels and within a token budget.

Messages are only added, never removed. Each message keeps its label for the whole recall. The chat model sees labels
instead of message ids, because ids may be long and contain arbitrary text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import tzinfo
from itertools import zip_longest
from typing import Final

from nomemory.client.prompt_lines import format_time
from nomemory.client.prompt_passages import count_tokens
from nomemory.recall.model.evidence import RetrievedMessage
from nomemory.recall.model.question import Role
from nomemory.recall.model.step import JsonValue
from nomemory.recall.reading.excerpts import ExcerptSelector, split_whole_sentences
from nomemory.text.question_detection import contains_only_questions
from nomemory.text.quoted_text import QuotedSpan, find_quoted_spans

_MIN_MESSAGES: Final = 40
"""Number of top-ranked messages that are shortened rather than omitted. Further messages are added if they fit."""
_TOP_MESSAGES: Final = 6
"""Number of top-ranked messages that may be longer than the others."""
_TOKEN_CAPS: Final = ((1_200, 250), (800, 250), (600, 160), (400, 100), (250, 60), (120, 60), (60, 40))
"""Token limits for a top message and for any other message. Longer messages are reduced to excerpts.

The first pair that fits all messages is used.
"""
_FURTHER_MESSAGE_CAP: Final = 120
"""The token limit for each message that ranks below the first `_MIN_MESSAGES`."""
_NEIGHBOR_CAP: Final = 60
"""The token limit for a preceding message or reply."""
_LINE_TOKENS: Final = 100
"""Number of tokens in a line in addition to the message text, including escapes."""
_SHORT_TOKENS: Final = 14
"""Maximum number of tokens in a message that may need context, such as `both, since March`."""
_QUESTION_TOKENS: Final = 60
_INLINE_PRECEDING_TOKENS: Final = 40
"""Maximum number of tokens of a preceding message that are shown in the line of its reply."""
_EDGE_CHARS: Final = 18
"""Number of characters shown at each end of a text span."""
_NO_LABEL: Final = "m100"

Line = Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class ReadingBudget:
    """Maximum numbers of ranked messages and of their estimated tokens in a prompt."""

    messages: int = 100
    tokens: int = 4_000


@dataclass(frozen=True, slots=True)
class ReplyContext:
    """Messages to show together with a message: the preceding message, and the reply."""

    preceding_by_id: Mapping[str, RetrievedMessage] = field(default_factory=dict)
    reply_by_id: Mapping[str, RetrievedMessage] = field(default_factory=dict)

    def get_neighbors(self, message: RetrievedMessage) -> Iterator[RetrievedMessage]:
        """Yield the preceding message and the reply, if they exist."""
        if (preceding := self.preceding_by_id.get(message.message_id)) is not None:
            yield preceding
        if (reply := self.reply_by_id.get(message.message_id)) is not None:
            yield reply


def needs_preceding_message(message: RetrievedMessage) -> bool:
    """Return whether a message is too short to be understood without the preceding message."""
    return count_tokens(message.content) <= _SHORT_TOKENS


def needs_reply(message: RetrievedMessage) -> bool:
    """Return whether a message is a short question, which is useful only together with its reply."""
    return count_tokens(message.content) <= _QUESTION_TOKENS and contains_only_questions(message.content)


class ContextWindow:
    """Messages that a chat model has seen in one recall.

    Args:
        question: the question, whose words select excerpts of long messages.
        budget: limits for the ranking. Each round of follow-up searches may add half as many messages and tokens.
    """

    def __init__(self, question: str, zone: tzinfo | None, budget: ReadingBudget) -> None:
        self._question = question
        self._zone = zone
        self._budget = budget
        self._shortened_ids: set[str] = set()
        self._excerpts: dict[str, ExcerptSelector] = {}
        self._labels: dict[str, str] = {}
        self._message_ids: dict[str, str] = {}
        self._conversation_labels: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._labels)

    def __contains__(self, message_id: str) -> bool:
        return message_id in self._labels

    @property
    def labels_by_id(self) -> Mapping[str, str]:
        """The labels of all messages that the chat model has seen, by message id."""
        return self._labels

    def resolve_label(self, label: str) -> str:
        """Return the message id for a label. A text that is not a label is returned unchanged."""
        return self._message_ids.get(label.strip(), label)

    def add_ranking(self, ranked: Sequence[RetrievedMessage], replies: ReplyContext) -> list[Line]:
        """Add the best messages of a ranking, and return their lines, oldest first.

        The best message has the label `m1`.

        Long messages are shortened to make room for other messages.

        Args:
            ranked: the ranked messages, best first.
            replies: the messages that the ranked messages reply to, and the replies to them.
        """
        best = ranked[: min(self._budget.messages, _MIN_MESSAGES)]
        further_messages = [(message, _FURTHER_MESSAGE_CAP) for message in ranked[len(best) : self._budget.messages]]
        selected: _SelectedLines = _SelectedLines(0)
        for top_cap, cap in _TOKEN_CAPS:
            capped_messages = [
                (item, top_cap if index < _TOP_MESSAGES else max(cap, 1)) for index, item in enumerate(best)
            ]
            selected = self._select_fitting_messages(
                [*capped_messages, *((item, min(limit, cap)) for item, limit in further_messages)], replies
            )
            if all(candidate.message_id in selected.lines for candidate in best):
                break
        return self._label_lines(selected, [message.message_id for message in ranked], replies)

    def add_results(
        self,
        results: Sequence[Sequence[RetrievedMessage]],
        full_length_ids: AbstractSet[str] = frozenset(),
        replies: ReplyContext | None = None,
    ) -> list[Line]:
        """Add the new messages of several follow-up searches, and return their lines, oldest first.

        Args:
            results: the messages of each search, best first. Messages are taken from each search in turn until the
                limit is reached.
            full_length_ids: ids of messages to show again in full length if only excerpts were shown.
            replies: the messages that the new messages reply to, and the replies to them.
        """
        repeated_ids = full_length_ids & self._shortened_ids
        interleaved = {
            item.message_id: item for round_items in zip_longest(*results) for item in round_items if item is not None
        }
        new_messages = [item for item in interleaved.values() if item.message_id not in self._labels]
        repeated_messages = [item for item in interleaved.values() if item.message_id in repeated_ids]
        max_tokens = self._budget.tokens // 2
        capped_messages = [
            *((item, max_tokens - _LINE_TOKENS) for item in repeated_messages),
            *((item, _TOKEN_CAPS[0][1]) for item in new_messages),
        ]
        shown_replies = replies or ReplyContext()
        selected = self._select_fitting_messages(
            capped_messages[: max(1, self._budget.messages // 2)], shown_replies, max_tokens, repeated_ids
        )
        lines = self._label_lines(selected, [item.message_id for item, _ in capped_messages], shown_replies)
        self._shortened_ids -= repeated_ids
        return lines

    def _select_fitting_messages(
        self,
        capped_messages: Iterable[tuple[RetrievedMessage, int]],
        replies: ReplyContext,
        max_tokens: int | None = None,
        repeated_ids: AbstractSet[str] = frozenset(),
    ) -> _SelectedLines:
        """Select messages, their preceding messages and their replies until the token limit is reached."""
        selected = _SelectedLines(self._budget.tokens if max_tokens is None else max_tokens)
        for message, cap in capped_messages:
            if message.message_id in self._labels and message.message_id not in repeated_ids:
                continue
            if selected.add_fitting_line(message, self._build_line(message, cap, replies)):
                for neighbor in replies.get_neighbors(message):
                    if neighbor.message_id not in self._labels:
                        selected.add_fitting_line(
                            neighbor, self._build_line(neighbor, min(cap, _NEIGHBOR_CAP), replies)
                        )
        return selected

    def _label_lines(self, selected: _SelectedLines, order: Sequence[str], replies: ReplyContext) -> list[Line]:
        """Assign labels to the selected messages in ranking order, and return their lines, oldest first."""
        ordered_ids = sorted(selected.lines, key=lambda item: order.index(item) if item in order else len(order))
        for message_id in ordered_ids:
            label = self._labels.setdefault(message_id, f"m{len(self._labels) + 1}")
            self._message_ids[label] = message_id
            line = selected.lines[message_id]
            line["id"] = label
            if "parts" in line:
                self._shortened_ids.add(message_id)
        for message_id, line in selected.lines.items():
            self._add_references(selected.messages[message_id], line, replies)
        shown = sorted(selected.messages.values(), key=lambda message: (message.ts, message.message_id))
        return [selected.lines[message.message_id] for message in shown]

    def _add_references(self, message: RetrievedMessage, line: dict[str, JsonValue], replies: ReplyContext) -> None:
        """Add the labels of the retracting and the preceding message to the line of a message."""
        if message.retracted_by in self._labels:
            line["taken_back_by"] = self._labels[message.retracted_by]
        preceding = replies.preceding_by_id.get(message.message_id)
        if preceding is not None and preceding.message_id in self._labels:
            line["replies_to"] = self._labels[preceding.message_id]

    def _build_line(self, message: RetrievedMessage, cap: int, replies: ReplyContext) -> dict[str, JsonValue]:
        return dict(self._build_line_fields(message, cap, replies.preceding_by_id.get(message.message_id)))

    def _build_line_fields(
        self, message: RetrievedMessage, cap: int, replied_to: RetrievedMessage | None
    ) -> Iterator[tuple[str, JsonValue]]:
        yield "id", self._labels.get(message.message_id, _NO_LABEL)
        yield "said", format_time(message.ts, self._zone)
        if message.conversation_id:
            yield (
                "talk",
                self._conversation_labels.setdefault(message.conversation_id, f"c{len(self._conversation_labels) + 1}"),
            )
        yield "by", message.sender
        if message.retracted_by:
            yield "taken_back_by", "a message that is not shown"
        if replied_to is not None:
            yield "replies_to", _extract_last_sentences(replied_to.content)
        excerpts = self._excerpts.setdefault(message.message_id, ExcerptSelector(message.content, self._question))
        shown = excerpts.shorten(cap)
        yield ("text", message.content) if shown == [message.content] else ("parts", list[JsonValue](shown))
        if message.role is Role.USER and (spans := find_quoted_spans(message.content)):
            yield "passed_on", [_describe_span(message.content, span) for span in spans]


@dataclass
class _SelectedLines:
    """Lines for a prompt, by message id, and the number of tokens that are left."""

    remaining_tokens: int
    lines: dict[str, dict[str, JsonValue]] = field(default_factory=dict)
    messages: dict[str, RetrievedMessage] = field(default_factory=dict)

    def add_fitting_line(self, message: RetrievedMessage, line: dict[str, JsonValue]) -> bool:
        """Add the line of a message if enough tokens are left; return whether the line is selected."""
        if message.message_id in self.lines:
            return True
        line_tokens = count_tokens(json.dumps(line, ensure_ascii=False))
        if line_tokens > self.remaining_tokens:
            return False
        self.remaining_tokens -= line_tokens
        self.lines[message.message_id] = line
        self.messages[message.message_id] = message
        return True


def _extract_last_sentences(content: str) -> str:
    """Return the last sentences of a text, up to `_INLINE_PRECEDING_TOKENS`."""
    kept: list[str] = []
    for sentence in reversed(list(split_whole_sentences(content))):
        if kept and count_tokens("".join([sentence, *kept])) > _INLINE_PRECEDING_TOKENS:
            break
        kept.insert(0, sentence)
    return "".join(kept).strip()


def _describe_span(content: str, span: QuotedSpan) -> dict[str, JsonValue]:
    """Describe a quoted span by the words that introduce it and by its first and last characters."""
    text = content[span.start : span.end]
    description: dict[str, JsonValue] = {
        **({"after": span.author} if span.author else {}),
        "begins": text[:_EDGE_CHARS],
    }
    if content[span.end :].strip():
        description["ends"] = text[-_EDGE_CHARS:]
    return description
