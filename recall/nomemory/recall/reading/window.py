"""What a chat model has been shown in one recall: messages under short labels, as many as a budget of tokens holds.

Nothing that was shown is taken away: what is looked up later is added. A label stands for one message in the whole
recall, so the ids of messages, which may be long and are anybody's text, are never shown.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime, tzinfo
from itertools import zip_longest
from typing import Final

from nomemory.client.prompt_passages import Passages
from nomemory.client.token_estimate import tokens
from nomemory.recall.grounding.assertion import is_passed_on
from nomemory.recall.model.evidence import Retrieved
from nomemory.recall.model.trace import JsonValue

_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_REPLIED_CHARS: Final = 120
"""Characters of the end of a message that a short reply replies to."""
_WHOLE_TOKENS: Final = 250
"""Tokens of a message that is shown whole. Of a longer one, passages of as many in all are shown."""
_LINE_TOKENS: Final = 100
"""Tokens of a line beside the text of its message, and of what has to be escaped in that."""
_SHORT_TOKENS: Final = 14
"""Tokens of a message that may say nothing by itself, such as `both, since March`."""

Line = Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class ReadingBudget:
    """How much a chat model reads of the ranking: messages, and tokens of their lines in the prompt, as estimated."""

    messages: int = 40
    tokens: int = 4_000


def is_short(message: Retrieved) -> bool:
    """Return whether only what it replies to may tell what a message means."""
    return tokens(message.content) <= _SHORT_TOKENS


def moment(ts: datetime, zone: tzinfo | None) -> str:
    """Write a time in a zone, with its weekday: `Sun 2026-06-14 09:05`."""
    local = ts.astimezone(zone)
    return f"{_DAYS[local.weekday()]} {local:%Y-%m-%d %H:%M}"


class ContextWindow:
    """The messages that one recall has shown.

    Args:
        asked: what is asked; of a long message the passages around it are shown.
        zone: the asker's.
        budget: how much the ranking may take. What is looked up later may take half of it, each time.
    """

    def __init__(self, asked: str, zone: tzinfo | None, budget: ReadingBudget) -> None:
        self._asked = asked
        self._zone = zone
        self._budget = budget
        self._in_parts: set[str] = set()
        self._labels: dict[str, str] = {}
        self._ids: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._labels)

    def message_id(self, label: str) -> str:
        """Return the id of the message that a label stands for; what is no label, as it is."""
        return self._ids.get(label.strip(), label)

    def rank(self, ranked: Iterable[Retrieved], replied_to: Mapping[str, Retrieved]) -> list[Line]:
        """Show the best of a ranking, oldest first. The labels count from `m1`, the best.

        Args:
            ranked: best first.
            replied_to: what short replies reply to, by the replies' ids.
        """
        return self._shown(ranked, replied_to, self._budget.messages, self._budget.tokens)

    def add(self, found: Sequence[Sequence[Retrieved]], whole: AbstractSet[str] = frozenset()) -> list[Line]:
        """Show what several look-ups brought and was not shown before, oldest first; each has its turn.

        Args:
            found: what each brought, best first.
            whole: messages, by their ids, that are shown again if only parts of them were; now as much of them as fits.
        """
        again = whole & self._in_parts
        self._in_parts -= again
        by_turns = [one for turn in zip_longest(*found) for one in turn if one is not None]
        first = [one for one in by_turns if one.message_id in again]
        return self._shown([*first, *by_turns], {}, self._budget.messages // 2, self._budget.tokens // 2, again)

    def _shown(
        self,
        messages: Iterable[Retrieved],
        replied_to: Mapping[str, Retrieved],
        most: int,
        room: int,
        again: AbstractSet[str] = frozenset(),
    ) -> list[Line]:
        lines: dict[str, tuple[Retrieved, Line]] = {}
        for message in messages:
            known = message.message_id in self._labels and message.message_id not in again
            if known or message.message_id in lines or len(lines) >= most:
                continue
            wanted = room - _LINE_TOKENS if message.message_id in again else _WHOLE_TOKENS
            line = dict(self._members(message, replied_to.get(message.message_id), wanted))
            cost = tokens(json.dumps(line, ensure_ascii=False))
            if cost <= room:
                room -= cost
                self._name(message, in_parts="parts" in line and message.message_id not in again)
                lines[message.message_id] = message, line
        return [line for _, line in sorted(lines.values(), key=lambda one: (one[0].ts, one[0].message_id))]

    def _label(self, message: Retrieved) -> str:
        return self._labels.get(message.message_id) or f"m{len(self._labels) + 1}"

    def _name(self, message: Retrieved, *, in_parts: bool) -> None:
        label = self._labels.setdefault(message.message_id, self._label(message))
        self._ids[label] = message.message_id
        if in_parts:
            self._in_parts.add(message.message_id)

    def _members(self, message: Retrieved, replied_to: Retrieved | None, most: int) -> Iterator[tuple[str, JsonValue]]:
        yield "id", self._label(message)
        yield "said", moment(message.ts, self._zone)
        yield "by", message.speaker
        if is_passed_on(message.content):
            yield "passed_on", True
        if replied_to is not None:
            yield "replies_to", replied_to.content[-_REPLIED_CHARS:]
        shown = Passages(message.content, question=self._asked).stretches(most)
        yield ("text", message.content) if shown == [message.content] else ("parts", list[JsonValue](shown))
