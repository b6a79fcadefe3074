"""One ranking of what all calls found: by words, by meaning, by time, by neighbourhood."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from nomemory.recall.intent.intent import Intent
from nomemory.recall.model.evidence import Evidence, Retrieved
from nomemory.recall.model.question import Question, Role
from nomemory.recall.model.search_scope import SearchScope
from nomemory.recall.skills.steering.steering import Steering
from nomemory.recall.tools.definitions import HYBRID_SEARCH, LEXICAL_SEARCH, MESSAGES_LIST, NEIGHBORS, SEMANTIC_SEARCH
from nomemory.recall.tools.result import Hit, ToolResult
from nomemory.text.asking import ends_asking
from nomemory.text.language import CHINESE
from nomemory.text.names import beginning

_WEIGHTS: Final = {SEMANTIC_SEARCH: 0.6, LEXICAL_SEARCH: 0.4, MESSAGES_LIST: 0.2}
_BESIDE_RANKING: Final = 1.5
"""Weight of other calls beside a ranking of the whole question. Follow-ups get all of it only if no word was found."""
_OF_ROUNDS: Final = (1.0, 0.85, 0.5)
"""Weight of the calls of each round: later rounds count less."""
_RANK_SMOOTHING: Final = 10
_OF_ANCHOR: Final = 0.3
"""Share of an anchor's score that the next message gets; those farther away get less."""
_OF_ROLE: Final = 0.15
_NAMED: Final = 0.4
_IN_WINDOW: Final = 0.15
_LATEST: Final = 0.15
_LATEST_HALF_LIFE_S: Final = 45 * 86_400.0
_ASKS: Final = 0.15
_SAYS_LITTLE: Final = 0.2
_LETTERS: Final = re.compile(f"[{CHINESE}]")
_WORDS: Final = re.compile(r"[A-Za-z]{2,}")
_NOD_CHARS: Final = 5
_NOD_WORDS: Final = 3
_BELOW: Final = 0.001
"""What parts the best of what is ranked by words from the last of what is nearest in meaning."""
_UNSTEERED: Final = Steering()


class _Voice(NamedTuple):
    """A source of scores: a tool, asked in the question's own words or, with less weight, in others."""

    tool: str
    weight: float = 1.0


@dataclass(slots=True)
class _Query:
    """The best score of each message over the calls with one query."""

    weight: float
    scores: dict[str, float] = field(default_factory=dict)

    def add(self, hits: Iterable[Hit]) -> None:
        for hit in hits:
            known = self.scores.get(hit.message.message_id, hit.score)
            self.scores[hit.message.message_id] = max(known, hit.score)

    def normalised(self) -> dict[str, float]:
        """Return the scores between 0 and 1, weighted."""
        least, most = min(self.scores.values()), max(self.scores.values())
        span = most - least
        if not span:
            return dict.fromkeys(self.scores, self.weight)
        return {message_id: self.weight * (score - least) / span for message_id, score in self.scores.items()}


@dataclass(slots=True)
class _Ranking:
    """The ranking of the whole question. Scores of several scopes do not compare, so the last scope's count."""

    scores: dict[str, float] = field(default_factory=dict)

    def add(self, hits: Iterable[Hit]) -> None:
        """Add another scope's ranking. Messages that it lacks count no more than its lowest."""
        latest = {hit.message.message_id: hit.score for hit in hits}
        least = min(latest.values(), default=math.inf)
        self.scores = {message_id: min(score, least) for message_id, score in self.scores.items()} | latest


class Fusion:
    """Ranks the evidence of one recall, whoever planned the calls.

    What is no question but talk is ranked by meaning alone: its words are not those of what it brings to mind.

    Args:
        question: gives the preferred role and window.
        intent: what it is after.
        steering: gives the role where the question gives none.
    """

    def __init__(self, question: Question, intent: Intent, steering: Steering = _UNSTEERED) -> None:
        reading = question.reading
        self._wants_latest = reading.asks_for_latest
        self._role = steering.preferred_role(question, intent)
        window = question.time_range or (reading.time_signal.window if reading.time_signal else None)
        self._window = SearchScope(window) if window is not None else None
        self._now = question.now
        self._text = question.sought.lower()
        self._beginnings = {beginning(word) for word in _WORDS.findall(self._text)}
        self._asked_role = question.role is not None or steering.defaults.role is not None
        self._is_talk = question.is_talk
        self._sought = question.sought
        self._ranking = _Ranking()
        self._nearest: dict[str, float] = {}
        self._coverage = 0.0
        self._queries: dict[tuple[_Voice, str], _Query] = {}
        self._around: dict[str, dict[str, int]] = {}
        self._messages: dict[str, Retrieved] = {}
        self._worths: dict[str, float] = {}
        self._ranked: tuple[Evidence, ...] | None = None

    def take(self, tool: str, query: str, result: ToolResult, iteration: int, weight: float = 1.0) -> None:
        """Add the result of a call; `query` is what it asked for (the anchor's id for neighbours).

        What a call of a lower weight brings is added to what the others bring. A query that is asked with further
        words is such a call: what matches in the question's own words gains from it too, and stays ahead.
        """
        self._ranked = None
        for hit in result.items:
            self._messages.setdefault(hit.message.message_id, hit.message)
        if self._is_talk and tool == SEMANTIC_SEARCH and query == self._sought:
            self._nearest |= {hit.message.message_id: hit.score for hit in result.items}
        if tool == NEIGHBORS:
            self._take_neighbours(query, [hit.message.message_id for hit in result.items])
        elif tool == HYBRID_SEARCH:
            self._ranking.add(result.items)
            self._coverage = max(self._coverage, result.coverage)
        elif result.items:
            of_round = _OF_ROUNDS[min(iteration, len(_OF_ROUNDS)) - 1]
            voice = _Voice(tool, weight)
            self._queries.setdefault((voice, query), _Query(of_round)).add(_scored(tool, result.items))

    def ranked(self) -> tuple[Evidence, ...]:
        """Return the evidence, best first; ties: the later message first, then the greater id."""
        if self._ranked is None:
            self._ranked = tuple(sorted(self._evidence(), key=_order, reverse=True))
        return self._ranked

    def _evidence(self) -> list[Evidence]:
        scores = self._scores()
        for anchor, around in self._around.items():
            for message_id, distance in around.items():
                lent = scores.get(anchor, 0.0) * _OF_ANCHOR / (1 + 0.25 * (distance - 1))
                scores[message_id] = max(scores.get(message_id, 0.0), lent)
        if self._nearest:
            scores = _led_by(self._nearest, scores)
        return [Evidence(self._messages[message_id], score) for message_id, score in scores.items()]

    def _scores(self) -> dict[str, float]:
        """Return each message's score. If the whole question was ranked, other calls add to that ranking."""
        ranked, share = self._ranking.scores, self._share(1.0)
        scores = {
            message_id: score + (0.0 if message_id in ranked else share * self._boost(self._messages[message_id]))
            for message_id, score in self._matched().items()
        }
        for message_id, score in ranked.items():
            scores[message_id] = scores.get(message_id, 0.0) + score + self._beside(self._messages[message_id])
        return scores

    def _share(self, weight: float) -> float:
        """Return the weight of calls beside the ranking. Calls of a lower weight are a skill's and count in full."""
        if not self._ranking.scores:
            return 1.0
        return _BESIDE_RANKING * (1 - self._coverage if weight == 1.0 else 1.0)

    def _beside(self, message: Retrieved) -> float:
        """Return what a message gains beside the ranking, which has judged speaker and questions already."""
        worth = self._worths.get(message.message_id)
        if worth is None:
            asked = self._of_role(message) if self._asked_role else 0.0
            worth = asked + self._of_time(message) - _SAYS_LITTLE * _is_nod(message.content)
            self._worths[message.message_id] = worth
        return worth

    def _take_neighbours(self, anchor: str, ids: list[str]) -> None:
        if anchor in ids:
            place = ids.index(anchor)
            self._around[anchor] = {one: abs(at - place) for at, one in enumerate(ids) if one != anchor}

    def _matched(self) -> dict[str, float]:
        """Sum each source's weight times its best score."""
        best: dict[_Voice, dict[str, float]] = {_Voice(tool): {} for tool in _WEIGHTS}
        for (voice, _), query in self._queries.items():
            scores = best.setdefault(voice, {})
            for message_id, score in query.normalised().items():
                scores[message_id] = max(scores.get(message_id, 0.0), score)
        return _weighted_sum(
            (_WEIGHTS[voice.tool] * voice.weight * self._share(voice.weight), found) for voice, found in best.items()
        )

    def _boost(self, message: Retrieved) -> float:
        """Return what a message gains apart from what it matches."""
        asks = ends_asking(message.content)
        return (
            self._of_speaker(message) + self._of_time(message) - _ASKS * asks - _SAYS_LITTLE * _is_nod(message.content)
        )

    def _of_speaker(self, message: Retrieved) -> float:
        """Prefer the person asked about, or, where messages carry no names, the role."""
        if message.person:
            named = beginning(message.person) in self._beginnings or message.person.lower() in self._text
            return _NAMED * named
        return self._of_role(message)

    def _of_role(self, message: Retrieved) -> float:
        return _OF_ROLE * (self._role is not Role.ANY and message.role is self._role)

    def _of_time(self, message: Retrieved) -> float:
        """Prefer the named window, and recent messages if the question asks how things stand."""
        age_s = (self._now - message.ts).total_seconds()
        latest = _LATEST * 0.5 ** (age_s / _LATEST_HALF_LIFE_S) if self._wants_latest else 0.0
        return latest + _IN_WINDOW * (self._window is not None and self._window.holds(message))


def _led_by(nearest: Mapping[str, float], others: Mapping[str, float]) -> dict[str, float]:
    """Return what is nearest in meaning with its own scores, and everything else below it, in its own order."""
    least = min(nearest.values())
    most = max((abs(score) for score in others.values()), default=0.0) or 1.0
    below = {message_id: least - _BELOW - abs(least) * (1 - score / most) for message_id, score in others.items()}
    return below | dict(nearest)


def _is_nod(content: str) -> bool:
    """Return whether a message says next to nothing: an emoji, “ok”, “好的”."""
    return len(_LETTERS.findall(content)) < _NOD_CHARS and len(_WORDS.findall(content)) < _NOD_WORDS


def _scored(tool: str, items: tuple[Hit, ...]) -> Iterable[Hit]:
    """Return reciprocal ranks where a tool has no scores."""
    if tool != MESSAGES_LIST:
        return items
    return [Hit(hit.message, 1 / (_RANK_SMOOTHING + rank)) for rank, hit in enumerate(items)]


def _weighted_sum(voices: Iterable[tuple[float, Mapping[str, float]]]) -> dict[str, float]:
    scores: dict[str, float] = {}
    for weight, found in voices:
        for message_id, score in found.items():
            scores[message_id] = scores.get(message_id, 0.0) + weight * score
    return scores


def _order(evidence: Evidence) -> tuple[float, float, bytes]:
    message = evidence.message
    return (round(evidence.score, 9), message.ts.timestamp(), message.message_id.encode())
