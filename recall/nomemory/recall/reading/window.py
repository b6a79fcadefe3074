"""The messages that a chat model has been shown in one recall, under short labels, within a budget of tokens.

Nothing that was shown is taken away: what is looked up later is added. A label stands for one message in the whole
recall, so the ids of messages, which may be long and are anybody's text, are never shown.
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
from nomemory.recall.model.evidence import Retrieved
from nomemory.recall.model.question import Role
from nomemory.recall.model.step import JsonValue
from nomemory.recall.reading.excerpts import Excerpts, whole_sentences
from nomemory.text.asking import only_asks
from nomemory.text.passed_on import PassedOn, passed_on

_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_BASE: Final = 40
"""Messages that are shown at least, in parts if need be; more only where there is room."""
_TOP: Final = 6
"""Of the ranking, so many are shown whole as long as there is room."""
_CAPS: Final = ((1_200, 250), (800, 250), (600, 160), (400, 100), (250, 60), (120, 60), (60, 40))
"""Tokens of one of the first messages, and of another one, that are shown whole; of a longer one, sentences of as many
in all. The first pair with which the messages fit is taken."""
_FURTHER_CAP: Final = 120
"""The same of messages that are shown because there is room left."""
_PARTNER_CAP: Final = 60
"""The same of what is shown beside a message: what it replies to, or its reply."""
_LINE_TOKENS: Final = 100
"""Tokens of a line beside the text of its message, and of what has to be escaped in that."""
_SHORT_TOKENS: Final = 14
"""Tokens of a message that may say nothing by itself, such as `both, since March`."""
_QUESTION_TOKENS: Final = 60
_REPLIED_TOKENS: Final = 40
"""Tokens of what a message replies to, where it is not shown itself."""
_EDGE_CHARS: Final = 18
"""Characters that show where a span of text begins or ends."""
_NO_LABEL: Final = "m100"

Line = Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class ReadingBudget:
    """How much a chat model reads of the ranking: messages, and tokens of their lines in the prompt, as estimated."""

    messages: int = 100
    tokens: int = 4_000


@dataclass(frozen=True, slots=True)
class Exchanges:
    """How messages belong together: what a message replies to, and what replies to it, by the ids of messages."""

    replied_to: Mapping[str, Retrieved] = field(default_factory=dict)
    replies: Mapping[str, Retrieved] = field(default_factory=dict)

    def partners(self, message: Retrieved) -> Iterator[Retrieved]:
        """Return what has to be read beside a message."""
        if (before := self.replied_to.get(message.message_id)) is not None:
            yield before
        if (after := self.replies.get(message.message_id)) is not None:
            yield after


def is_short(message: Retrieved) -> bool:
    """Return whether only what it replies to may tell what a message means."""
    return tokens(message.content) <= _SHORT_TOKENS


def is_question(message: Retrieved) -> bool:
    """Return whether a message is short and only asks: then its reply matters."""
    return tokens(message.content) <= _QUESTION_TOKENS and only_asks(message.content)


def moment(ts: datetime, zone: tzinfo | None) -> str:
    """Write a time in a zone, with its weekday: `Sun 2026-06-14 09:05`."""
    local = ts.astimezone(zone)
    return f"{_DAYS[local.weekday()]} {local:%Y-%m-%d %H:%M}"


class ContextWindow:
    """The messages that one recall has shown.

    Args:
        asked: what is asked; of a long message the sentences around it are shown.
        zone: the asker's.
        budget: how much the ranking may take. What is looked up later may take half of it, each time.
    """

    def __init__(self, asked: str, zone: tzinfo | None, budget: ReadingBudget) -> None:
        self._asked = asked
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
        """Return the id of the message that a label stands for; what is no label, as it is."""
        return self._ids.get(label.strip(), label)

    def rank(self, ranked: Sequence[Retrieved], exchanges: Exchanges) -> list[Line]:
        """Show the best of a ranking, oldest first. The labels count from `m1`, the best.

        Where long messages would leave no room for others, less of each of them is shown.

        Args:
            ranked: best first.
            exchanges: what has to be read beside them.
        """
        best = ranked[: min(self._budget.messages, _BASE)]
        further = [(one, _FURTHER_CAP) for one in ranked[len(best) : self._budget.messages]]
        chosen: _Chosen = _Chosen(0)
        for top, cap in _CAPS:
            capped = [(one, top if at < _TOP else max(cap, 1)) for at, one in enumerate(best)]
            chosen = self._fitting([*capped, *((one, min(most, cap)) for one, most in further)], exchanges)
            if all(one.message_id in chosen.lines for one in best):
                break
        return self._shown(chosen, [one.message_id for one in ranked], exchanges)

    def add(
        self,
        found: Sequence[Sequence[Retrieved]],
        whole: AbstractSet[str] = frozenset(),
        exchanges: Exchanges | None = None,
    ) -> list[Line]:
        """Show what several look-ups brought and was not shown before, oldest first; each has its turn.

        Args:
            found: what each brought, best first.
            whole: messages, by their ids, that are shown again if only parts of them were; now as much of them as fits.
            exchanges: what has to be read beside them.
        """
        again = whole & self._in_parts
        by_turns = {one.message_id: one for turn in zip_longest(*found) for one in turn if one is not None}
        new = [one for one in by_turns.values() if one.message_id not in self._labels]
        repeated = [one for one in by_turns.values() if one.message_id in again]
        room = self._budget.tokens // 2
        capped = [*((one, room - _LINE_TOKENS) for one in repeated), *((one, _CAPS[0][1]) for one in new)]
        beside = exchanges or Exchanges()
        chosen = self._fitting(capped[: max(1, self._budget.messages // 2)], beside, room, again)
        lines = self._shown(chosen, [one.message_id for one, _ in capped], beside)
        self._in_parts -= again
        return lines

    def _fitting(
        self,
        capped: Iterable[tuple[Retrieved, int]],
        exchanges: Exchanges,
        room: int | None = None,
        again: AbstractSet[str] = frozenset(),
    ) -> _Chosen:
        """Return the lines of the messages that fit, and of what has to be read beside them."""
        chosen = _Chosen(self._budget.tokens if room is None else room)
        for message, cap in capped:
            if message.message_id in self._labels and message.message_id not in again:
                continue
            if chosen.take(message, self._line(message, cap, exchanges)):
                for partner in exchanges.partners(message):
                    if partner.message_id not in self._labels:
                        chosen.take(partner, self._line(partner, min(cap, _PARTNER_CAP), exchanges))
        return chosen

    def _shown(self, chosen: _Chosen, order: Sequence[str], exchanges: Exchanges) -> list[Line]:
        """Label what was chosen: in the order of a ranking, then what stands beside it."""
        in_order = sorted(chosen.lines, key=lambda one: order.index(one) if one in order else len(order))
        for message_id in in_order:
            label = self._labels.setdefault(message_id, f"m{len(self._labels) + 1}")
            self._ids[label] = message_id
            line = chosen.lines[message_id]
            line["id"] = label
            if "parts" in line:
                self._in_parts.add(message_id)
        for message_id, line in chosen.lines.items():
            self._refer(chosen.messages[message_id], line, exchanges)
        shown = sorted(chosen.messages.values(), key=lambda one: (one.ts, one.message_id))
        return [chosen.lines[one.message_id] for one in shown]

    def _refer(self, message: Retrieved, line: dict[str, JsonValue], exchanges: Exchanges) -> None:
        """Name other messages by their labels, where they are shown."""
        if message.retracted_by in self._labels:
            line["taken_back_by"] = self._labels[message.retracted_by]
        before = exchanges.replied_to.get(message.message_id)
        if before is not None and before.message_id in self._labels:
            line["replies_to"] = self._labels[before.message_id]

    def _line(self, message: Retrieved, cap: int, exchanges: Exchanges) -> dict[str, JsonValue]:
        return dict(self._members(message, cap, exchanges.replied_to.get(message.message_id)))

    def _members(self, message: Retrieved, most: int, replied_to: Retrieved | None) -> Iterator[tuple[str, JsonValue]]:
        yield "id", self._labels.get(message.message_id, _NO_LABEL)
        yield "said", moment(message.ts, self._zone)
        if message.conversation_id:
            yield "talk", self._talks.setdefault(message.conversation_id, f"c{len(self._talks) + 1}")
        yield "by", message.speaker
        if message.retracted_by:
            yield "taken_back_by", "a message that is not shown"
        if replied_to is not None:
            yield "replies_to", _end(replied_to.content)
        excerpts = self._excerpts.setdefault(message.message_id, Excerpts(message.content, self._asked))
        shown = excerpts.within(most)
        yield ("text", message.content) if shown == [message.content] else ("parts", list[JsonValue](shown))
        if message.role is Role.USER and (spans := passed_on(message.content)):
            yield "passed_on", [_span(message.content, one) for one in spans]


@dataclass
class _Chosen:
    """Lines that fit into a room of tokens, by the ids of their messages."""

    room: int
    lines: dict[str, dict[str, JsonValue]] = field(default_factory=dict)
    messages: dict[str, Retrieved] = field(default_factory=dict)

    def take(self, message: Retrieved, line: dict[str, JsonValue]) -> bool:
        """Take a line if it fits; return whether it is shown."""
        if message.message_id in self.lines:
            return True
        cost = tokens(json.dumps(line, ensure_ascii=False))
        if cost > self.room:
            return False
        self.room -= cost
        self.lines[message.message_id] = line
        self.messages[message.message_id] = message
        return True


def _end(content: str) -> str:
    """Return the last sentences of a text, as many as are shown of what a message replies to."""
    kept: list[str] = []
    for sentence in reversed(list(whole_sentences(content))):
        if kept and tokens("".join([sentence, *kept])) > _REPLIED_TOKENS:
            break
        kept.insert(0, sentence)
    return "".join(kept).strip()


def _span(content: str, span: PassedOn) -> dict[str, JsonValue]:
    """Describe a span by who or what introduces it, and by its edges."""
    text = content[span.start : span.end]
    described: dict[str, JsonValue] = {"author": span.author or "not said", "begins": text[:_EDGE_CHARS]}
    if content[span.end :].strip():
        described["ends"] = text[-_EDGE_CHARS:]
    return described
