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
from itertools import islice, zip_longest
from typing import Final

from nomemory.client.prompt_passages import Passages, tokens
from nomemory.recall.grounding.assertions import attribution
from nomemory.recall.model.evidence import Retrieved
from nomemory.recall.model.memory_view import Attribution
from nomemory.recall.model.step import JsonValue

_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_REPLIED_CHARS: Final = 120
"""Characters of the end of a message that a short reply replies to."""
_CAPS: Final = (250, 160, 100, 60)
"""Tokens of a message that is shown whole; of a longer one, passages of as many in all are. The first with which all
messages fit is taken."""
_LINE_TOKENS: Final = 100
"""Tokens of a line beside the text of its message, and of what has to be escaped in that."""
_SHORT_TOKENS: Final = 14
"""Tokens of a message that may say nothing by itself, such as `both, since March`."""

Line = Mapping[str, JsonValue]
_Shown = tuple[Retrieved, dict[str, JsonValue]]


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
        self._passages: dict[str, Passages] = {}
        self._labels: dict[str, str] = {}
        self._ids: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._labels)

    def message_id(self, label: str) -> str:
        """Return the id of the message that a label stands for; what is no label, as it is."""
        return self._ids.get(label.strip(), label)

    def rank(self, ranked: Iterable[Retrieved], replied_to: Mapping[str, Retrieved]) -> list[Line]:
        """Show the best of a ranking, oldest first. The labels count from `m1`, the best.

        Where long messages would leave no room for others, less of each of them is shown.

        Args:
            ranked: best first.
            replied_to: what short replies reply to, by the replies' ids.
        """
        best = list(islice(ranked, self._budget.messages))
        lines: list[_Shown] = []
        for cap in _CAPS:
            lines = self._fitting([(one, cap) for one in best], self._budget.tokens, replied_to)
            if len(lines) == len(best):
                break
        return self._shown(lines)

    def add(self, found: Sequence[Sequence[Retrieved]], whole: AbstractSet[str] = frozenset()) -> list[Line]:
        """Show what several look-ups brought and was not shown before, oldest first; each has its turn.

        Args:
            found: what each brought, best first.
            whole: messages, by their ids, that are shown again if only parts of them were; now as much of them as fits.
        """
        again = whole & self._in_parts
        by_turns = {one.message_id: one for turn in zip_longest(*found) for one in turn if one is not None}
        new = [one for one in by_turns.values() if one.message_id not in self._labels]
        chosen = [*(one for one in by_turns.values() if one.message_id in again), *new]
        room = self._budget.tokens // 2
        capped = [(one, room - _LINE_TOKENS if one.message_id in again else _CAPS[0]) for one in chosen]
        lines = self._shown(self._fitting(capped[: self._budget.messages // 2], room, {}))
        self._in_parts -= again
        return lines

    def _fitting(
        self, capped: Iterable[tuple[Retrieved, int]], room: int, replied_to: Mapping[str, Retrieved]
    ) -> list[_Shown]:
        """Return the lines of the messages that fit, each under the label that it has or would get."""
        lines: list[_Shown] = []
        fresh = len(self._labels)
        for message, cap in capped:
            label = self._labels.get(message.message_id) or f"m{fresh + 1}"
            line = dict(self._members(message, label, replied_to.get(message.message_id), cap))
            cost = tokens(json.dumps(line, ensure_ascii=False))
            if cost <= room:
                room -= cost
                fresh += message.message_id not in self._labels
                lines.append((message, line))
        return lines

    def _shown(self, lines: Sequence[_Shown]) -> list[Line]:
        for message, line in lines:
            label = str(line["id"])
            self._labels[message.message_id] = label
            self._ids[label] = message.message_id
            if "parts" in line:
                self._in_parts.add(message.message_id)
        for message, line in lines:
            if message.retracted_by in self._labels:
                line["taken_back_by"] = self._labels[message.retracted_by]
        return [line for _, line in sorted(lines, key=lambda one: (one[0].ts, one[0].message_id))]

    def _members(
        self, message: Retrieved, label: str, replied_to: Retrieved | None, most: int
    ) -> Iterator[tuple[str, JsonValue]]:
        yield "id", label
        yield "said", moment(message.ts, self._zone)
        yield "by", message.speaker
        if attribution(message) is Attribution.QUOTED:
            yield "passed_on", True
        if message.retracted_by:
            yield "taken_back_by", "a message that is not shown"
        if replied_to is not None:
            yield "replies_to", replied_to.content[-_REPLIED_CHARS:]
        passages = self._passages.get(message.message_id) or Passages(message.content, question=self._asked)
        self._passages[message.message_id] = passages  # chosen from again where room is short
        shown = passages.excerpts(most)
        yield ("text", message.content) if shown == [message.content] else ("parts", list[JsonValue](shown))
