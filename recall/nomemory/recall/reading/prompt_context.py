"""The messages shown to a chat model in one recall, with short labels, within a token budget.

Messages are only added, never removed. Each message keeps one label for the whole recall. Message ids are not shown
because they may be long and contain arbitrary text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from itertools import zip_longest
from typing import Final

from nomemory.client.prompt_passages import tokens
from nomemory.recall.model.evidence import RetrievedMessage
from nomemory.recall.model.question import Role
from nomemory.recall.model.step import JsonValue
from nomemory.recall.reading.excerpts import Excerpts, whole_sentences
from nomemory.text.question_detection import contains_only_questions
from nomemory.text.quoted_text import QuotedSpan, find_quoted_spans

_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_BASE: Final = 40
"""Minimum number of messages, shortened if necessary; more if the budget allows."""
_TOP: Final = 6
"""Number of top-ranked messages that may be longer than the others."""
_TOKEN_CAPS: Final = ((1_200, 250), (800, 250), (600, 160), (400, 100), (250, 60), (120, 60), (60, 40))
"""Token limits for a top message and for any other message. Longer messages are reduced to excerpts.

The first pair that fits all messages is used.
"""
_FURTHER_CAP: Final = 120
"""The token limit for additional messages."""
_PARTNER_CAP: Final = 60
"""The token limit for a preceding message or reply."""
_LINE_TOKENS: Final = 100
"""Number of tokens in a line in addition to the message text, including escapes."""
_SHORT_TOKENS: Final = 14
"""Maximum number of tokens in a message that may need context, such as `both, since March`."""
_QUESTION_TOKENS: Final = 60
_REPLIED_TOKENS: Final = 40
"""Maximum number of tokens in a preceding message without a separate line."""
_EDGE_CHARS: Final = 18
"""Number of characters shown at each end of a text span."""
_NO_LABEL: Final = "m100"

Line = Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class ReadingBudget:
    """The maximum number of messages and of estimated tokens of a ranking in the prompt."""

    messages: int = 100
    tokens: int = 4_000


@dataclass(frozen=True, slots=True)
class Exchanges:
    """The preceding message and reply of each message, by message id."""

    replied_to: Mapping[str, RetrievedMessage] = field(default_factory=dict)
    replies: Mapping[str, RetrievedMessage] = field(default_factory=dict)

    def partners(self, message: RetrievedMessage) -> Iterator[RetrievedMessage]:
        """Return the messages to show together with a message."""
        if (before := self.replied_to.get(message.message_id)) is not None:
            yield before
        if (after := self.replies.get(message.message_id)) is not None:
            yield after


def is_short(message: RetrievedMessage) -> bool:
    """Return whether a message is so short that the preceding message is needed."""
    return tokens(message.content) <= _SHORT_TOKENS


def is_question(message: RetrievedMessage) -> bool:
    """Return whether a message is a short question, whose reply is needed."""
    return tokens(message.content) <= _QUESTION_TOKENS and contains_only_questions(message.content)


def moment(ts: datetime, zone: tzinfo | None) -> str:
    """Format a time with its weekday: `Sun 2026-06-14 09:05`."""
    local = ts.astimezone(zone)
    return f"{_DAYS[local.weekday()]} {local:%Y-%m-%d %H:%M}"


class ContextWindow:
    """The messages shown in one recall.

    Args:
        question: the question, for selecting excerpts of long messages.
        zone: the user's time zone.
        budget: limits of the ranking. Each follow-up search may use half of the tokens.
    """

    def __init__(self, question: str, zone: tzinfo | None, budget: ReadingBudget) -> None:
        self._question = question
        self._zone = zone
        self._budget = budget
        self._in_parts: set[str] = set()
        self._excerpts: dict[str, Excerpts] = {}
        self._labels: dict[str, str] = {}
        self._ids: dict[str, str] = {}
        self._talks: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._labels)

    def __contains__(self, message_id: str) -> bool:
        return message_id in self._labels

    def message_id(self, label: str) -> str:
        """Return the message id of a label; other texts unchanged."""
        return self._ids.get(label.strip(), label)

    def rank(self, ranked: Sequence[RetrievedMessage], exchanges: Exchanges) -> list[Line]:
        """Show the best messages of a ranking, oldest first. The best message has the label `m1`.

        Long messages are shortened to make room for others.

        Args:
            ranked: the messages, best first.
            exchanges: preceding messages and replies to show as well.
        """
        best = ranked[: min(self._budget.messages, _BASE)]
        further = [(message, _FURTHER_CAP) for message in ranked[len(best) : self._budget.messages]]
        chosen: _SelectedLines = _SelectedLines(0)
        for top, cap in _TOKEN_CAPS:
            capped = [(item, top if at < _TOP else max(cap, 1)) for at, item in enumerate(best)]
            chosen = self._select_fitting([*capped, *((item, min(limit, cap)) for item, limit in further)], exchanges)
            if all(candidate.message_id in chosen.lines for candidate in best):
                break
        return self._label(chosen, [message.message_id for message in ranked], exchanges)

    def add(
        self,
        results: Sequence[Sequence[RetrievedMessage]],
        whole: AbstractSet[str] = frozenset(),
        exchanges: Exchanges | None = None,
    ) -> list[Line]:
        """Show new messages of several follow-up searches, oldest first, taking from each search in turn.

        Args:
            results: messages of each search, best first.
            whole: ids of messages to show again in full length if only excerpts were shown.
            exchanges: preceding messages and replies to show as well.
        """
        repeat = whole & self._in_parts
        by_turns = {item.message_id: item for turn in zip_longest(*results) for item in turn if item is not None}
        new = [item for item in by_turns.values() if item.message_id not in self._labels]
        repeated = [item for item in by_turns.values() if item.message_id in repeat]
        room = self._budget.tokens // 2
        capped = [*((item, room - _LINE_TOKENS) for item in repeated), *((item, _TOKEN_CAPS[0][1]) for item in new)]
        partners = exchanges or Exchanges()
        chosen = self._select_fitting(capped[: max(1, self._budget.messages // 2)], partners, room, repeat)
        lines = self._label(chosen, [item.message_id for item, _ in capped], partners)
        self._in_parts -= repeat
        return lines

    def _select_fitting(
        self,
        capped: Iterable[tuple[RetrievedMessage, int]],
        exchanges: Exchanges,
        room: int | None = None,
        repeat: AbstractSet[str] = frozenset(),
    ) -> _SelectedLines:
        """Return the lines of the messages that fit, with their preceding messages and replies."""
        chosen = _SelectedLines(self._budget.tokens if room is None else room)
        for message, cap in capped:
            if message.message_id in self._labels and message.message_id not in repeat:
                continue
            if chosen.add(message, self._line(message, cap, exchanges)):
                for partner in exchanges.partners(message):
                    if partner.message_id not in self._labels:
                        chosen.add(partner, self._line(partner, min(cap, _PARTNER_CAP), exchanges))
        return chosen

    def _label(self, chosen: _SelectedLines, order: Sequence[str], exchanges: Exchanges) -> list[Line]:
        """Label the selected messages in ranking order, then their preceding messages and replies."""
        in_order = sorted(chosen.lines, key=lambda item: order.index(item) if item in order else len(order))
        for message_id in in_order:
            label = self._labels.setdefault(message_id, f"m{len(self._labels) + 1}")
            self._ids[label] = message_id
            line = chosen.lines[message_id]
            line["id"] = label
            if "parts" in line:
                self._in_parts.add(message_id)
        for message_id, line in chosen.lines.items():
            self._add_references(chosen.messages[message_id], line, exchanges)
        shown = sorted(chosen.messages.values(), key=lambda message: (message.ts, message.message_id))
        return [chosen.lines[message.message_id] for message in shown]

    def _add_references(self, message: RetrievedMessage, line: dict[str, JsonValue], exchanges: Exchanges) -> None:
        """Add the labels of related messages to a line."""
        if message.retracted_by in self._labels:
            line["taken_back_by"] = self._labels[message.retracted_by]
        before = exchanges.replied_to.get(message.message_id)
        if before is not None and before.message_id in self._labels:
            line["replies_to"] = self._labels[before.message_id]

    def _line(self, message: RetrievedMessage, cap: int, exchanges: Exchanges) -> dict[str, JsonValue]:
        return dict(self._fields(message, cap, exchanges.replied_to.get(message.message_id)))

    def _fields(
        self, message: RetrievedMessage, cap: int, replied_to: RetrievedMessage | None
    ) -> Iterator[tuple[str, JsonValue]]:
        yield "id", self._labels.get(message.message_id, _NO_LABEL)
        yield "said", moment(message.ts, self._zone)
        if message.conversation_id:
            yield "talk", self._talks.setdefault(message.conversation_id, f"c{len(self._talks) + 1}")
        yield "by", message.speaker
        if message.retracted_by:
            yield "taken_back_by", "a message that is not shown"
        if replied_to is not None:
            yield "replies_to", _last_sentences(replied_to.content)
        excerpts = self._excerpts.setdefault(message.message_id, Excerpts(message.content, self._question))
        shown = excerpts.shorten(cap)
        yield ("text", message.content) if shown == [message.content] else ("parts", list[JsonValue](shown))
        if message.role is Role.USER and (spans := find_quoted_spans(message.content)):
            yield "passed_on", [_span(message.content, span) for span in spans]


@dataclass
class _SelectedLines:
    """Lines that fit into a token limit, by message id."""

    room: int
    lines: dict[str, dict[str, JsonValue]] = field(default_factory=dict)
    messages: dict[str, RetrievedMessage] = field(default_factory=dict)

    def add(self, message: RetrievedMessage, line: dict[str, JsonValue]) -> bool:
        """Add a line if it fits; return whether the line is shown."""
        if message.message_id in self.lines:
            return True
        cost = tokens(json.dumps(line, ensure_ascii=False))
        if cost > self.room:
            return False
        self.room -= cost
        self.lines[message.message_id] = line
        self.messages[message.message_id] = message
        return True


def _last_sentences(content: str) -> str:
    """Return the last sentences of a preceding message, up to its token limit."""
    kept: list[str] = []
    for sentence in reversed(list(whole_sentences(content))):
        if kept and tokens("".join([sentence, *kept])) > _REPLIED_TOKENS:
            break
        kept.insert(0, sentence)
    return "".join(kept).strip()


def _span(content: str, span: QuotedSpan) -> dict[str, JsonValue]:
    """Describe a text span by its introduction, first and last characters."""
    text = content[span.start : span.end]
    described: dict[str, JsonValue] = {"author": span.author or "not said", "begins": text[:_EDGE_CHARS]}
    if content[span.end :].strip():
        described["ends"] = text[-_EDGE_CHARS:]
    return described
