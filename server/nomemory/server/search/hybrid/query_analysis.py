"""Analysis of a question: the terms of each sentence, and the message authors that the question names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import Final

from nomemory.text.analysis import analyze_text
from nomemory.text.language import Language, detect_language
from nomemory.text.names import collect_name_prefixes, get_name_prefix, remove_speaker_names
from nomemory.text.query_parts import select_query_parts
from nomemory.text.question_analysis import QuestionAnalysis
from nomemory.text.question_words import remove_question_words
from nomemory.text.time_range import TimeRange

_WORD: Final = re.compile(r"[^\W\d_]{2,}")
_MAX_TERMS: Final = 128
"""Maximum number of terms of a sentence; further terms are ignored."""


_MAX_PARTS: Final = 8
_CACHED_PATTERNS: Final = 256
_CLAUSE: Final = re.compile(r"[，,；;]")
_MIN_CLAUSE_CHARS: Final = 4
"""Shorter clauses, such as “对了，”, are ignored."""


@dataclass(frozen=True, slots=True)
class ParsedSentence:
    """A sentence of a question, with the text to embed, the terms to search for, and the terms of its topic."""

    embedding_text: str
    terms: tuple[str, ...]
    topic_terms: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ParsedQuestion:
    """A question, analyzed for messages by certain authors.

    Attributes:
        analysis: the analysis of the text, which does not depend on the authors.
        sentences: the sentences, or parts of a long text, that are searched for separately.
        persons: the authors that the question names.
    """

    analysis: QuestionAnalysis
    sentences: tuple[ParsedSentence, ...]
    persons: frozenset[str]

    @property
    def asks_about_assistant(self) -> bool:
        """Whether the answer is likely to be in the assistant's messages."""
        return self.analysis.asks_about_assistant

    @property
    def asks_about_user(self) -> bool:
        """Whether the answer is likely to be in the user's messages, if the question names nobody."""
        return not self.asks_about_assistant

    @property
    def date_ranges(self) -> tuple[TimeRange, ...]:
        """The time ranges that the question names, such as a day or a month."""
        return self.analysis.exact_time_ranges


def parse_question(
    analysis: QuestionAnalysis, speakers: Sequence[str], frequent_names: Sequence[str] = ()
) -> ParsedQuestion:
    """Analyze a question for messages by the given authors.

    The names in `frequent_names` are removed from the text to embed.
    """
    return ParsedQuestion(
        analysis=analysis,
        sentences=tuple(
            _parse_sentence(sentence, speakers, frequent_names) for sentence in _select_search_texts(analysis)
        ),
        persons=frozenset(_find_mentioned_speakers(analysis.text, speakers)),
    )


def _select_search_texts(analysis: QuestionAnalysis) -> Sequence[str]:
    """Return the texts to search for: the question sentences, or the parts of a conversation turn."""
    if analysis.is_conversation_turn:
        return select_query_parts(analysis.text)
    return [part for sentence in analysis.question_sentences for part in select_query_parts(sentence)][:_MAX_PARTS]


def _parse_sentence(sentence: str, speakers: Sequence[str], frequent_names: Sequence[str]) -> ParsedSentence:
    terms = _extract_terms(sentence)[:_MAX_TERMS]
    topic = frozenset(_extract_terms(_extract_topic_clause(sentence)))
    unnamed = remove_speaker_names(reduce(_remove_ranges, frequent_names, sentence), speakers)
    return ParsedSentence(unnamed or sentence, terms, topic)


def _remove_ranges(text: str, name: str) -> str:
    return text.replace(name, "")


def _extract_terms(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(analyze_text(remove_question_words(text)).terms))


def _extract_topic_clause(sentence: str) -> str:
    """Return the topic clause, the first clause of a Chinese sentence with several clauses; "" for other sentences."""
    if detect_language(sentence) is not Language.CHINESE:
        return ""
    clauses = [clause for part in _CLAUSE.split(sentence) if len(clause := part.strip(" ？?。")) >= _MIN_CLAUSE_CHARS]
    return clauses[0] if len(clauses) > 1 else ""


def _find_mentioned_speakers(text: str, speakers: Sequence[str]) -> Iterable[str]:
    prefixes = collect_name_prefixes(_WORD.findall(text.lower()))
    return (name for name in speakers if get_name_prefix(name) in prefixes or _build_name_pattern(name).search(text))


@lru_cache(_CACHED_PATTERNS)
def _build_name_pattern(name: str) -> re.Pattern[str]:
    """Return a pattern that matches a name as a whole word, or inside text of a script without spaces."""
    return re.compile(rf"(?<![a-z0-9]){re.escape(name.strip() or name)}(?![a-z0-9])", re.IGNORECASE)
