"""Whether a text asserts anything: told clause by clause, by form and never by topic."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import takewhile
from typing import Final

from nomemory.text.language import Language, language_of

_SENTENCE: Final = re.compile(r"(?:[^。！？!?.\n]|\.(?!\s))+[。！？!?.]*")
_MARKED: Final = re.compile(r"[?？][\s\"”'）)]*$")
_CLAUSE: Final = re.compile(r"[，；;]|,(?!\d)")
_ASKS_CHINESE: Final = re.compile(
    r"什么|怎么|怎样|如何|多少|多久|多长|多大|为什么|哪|谁|几[点号个时天次]|吗|呢$|(.)不\1|(.)没\2|有没有|是否|啥"
)
_LEADING: Final = r"^\W*(?:(?:and|so|ok|but|hey|hi|also|btw)[,\s]+)*"
_ASKS_ENGLISH: Final = re.compile(
    rf"{_LEADING}(?:whats?|what's|which|who|whose|when|where|why|how"
    r"|is|are|am|was|were|do|does|did|can|could|should|would|will|has|have|had)\b",
    re.IGNORECASE,
)
"""The closed classes of words that open a question, for people who type no question mark."""
_SUPPOSES: Final = re.compile(rf"{_LEADING}(?:if|whether|unless)\b|^(?:如果|要是|假如|万一)", re.IGNORECASE)
_LONGEST: Final = {Language.CHINESE: 30, Language.ENGLISH: 90}
"""Characters of a clause that can still ask without a question mark."""
_FEWEST: Final = {Language.CHINESE: 4, Language.ENGLISH: 3}
"""Characters, or words, of a clause that states something: “对了” and “hmm” do not."""


def only_asks(text: str) -> bool:
    """Return whether a text asks, with or without a question mark, and no clause of it asserts anything.

    "The 14th is near, what do I give her?" states a date.
    """
    clauses = [_clauses(sentence) for sentence in _SENTENCE.findall(text)]
    return any(asks for asks, _ in clauses) and not any(states for _, states in clauses)


def _clauses(sentence: str) -> tuple[bool, bool]:
    """Return whether a sentence asks, and whether a clause of it states something.

    In a sentence with a question mark, what follows the clause that asks belongs to the question.
    """
    clauses = [stripped for clause in _CLAUSE.split(sentence) if (stripped := clause.strip())]
    if _MARKED.search(sentence):
        return True, _states(takewhile(lambda clause: not _asks(clause), clauses[:-1]))
    return any(map(_asks, clauses)), _states(clause for clause in clauses if not _asks(clause))


def _asks(clause: str) -> bool:
    language = language_of(clause)
    form = _ASKS_CHINESE if language is Language.CHINESE else _ASKS_ENGLISH
    return len(clause) <= _LONGEST[language] and form.search(clause) is not None


def _states(clauses: Iterable[str]) -> bool:
    return any(_size(clause) and not _SUPPOSES.search(clause) for clause in clauses)


def _size(clause: str) -> bool:
    language = language_of(clause)
    size = len(clause) if language is Language.CHINESE else len(clause.split())
    return size >= _FEWEST[language]
