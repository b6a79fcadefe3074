"""Detect questions, requests and statements by their form."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import takewhile
from typing import Final

from nomemory.text.language import Language, detect_language
from nomemory.text.sentences import CLAUSE_END, SENTENCE_END, split_sentence_texts

_MAX_SENTENCES: Final = 4
_MARKED: Final = r"[?？][\s\"”'）)]*$"
_OPENERS: Final = (
    r"(?:whats?|what's|which|who|whose|when|where|why|how|is|are|am|was|were|do|does|did|can|could|should|would|will"
    r"|has|have|had)\b"
)
"""Words that open an English question, for questions without a question mark."""
_CHINESE_FORMS: Final = (
    r"什么|怎么|怎样|如何|为何|多少|多久|多长|多大|哪|谁|啥|几[点号岁个时天次]|吗|呢$|(.)不\1|(.)没\2|有没有|是否"
)
_LEADING: Final = r"^\W*(?:(?:and|so|ok|but|hey|hi|also|btw)[,\s]+)*"
_ASKS: Final = re.compile(rf"[?？]|{_CHINESE_FORMS}|{_LEADING}{_OPENERS}", re.IGNORECASE)
_ASKS_CHINESE: Final = re.compile(_CHINESE_FORMS)
_ASKS_ENGLISH: Final = re.compile(_LEADING + _OPENERS, re.IGNORECASE)
_REQUESTS: Final = re.compile(
    r"总结|列(?:一下|出|个|举)|整理|归纳|回顾|回忆一下|告诉|说说|讲讲|介绍|提醒|帮我|给我|^\s*(?:请|按|把|查|找)|"
    r"^\s*(?:please\s+)?(?:list|give|show|find|name|recall|describe|explain|write|make|get|look|check|search|help|"
    r"compare|tell|summari[sz]e|remind)\b",
    re.IGNORECASE,
)
_ANNOUNCEMENT: Final = re.compile(
    r"(?<![主重只需])[想要][^，,：:。！？?]{0,4}?(?:问|说|知道|了解|清楚)(?:的?(?:问题)?是)?(?:这个)?[，,：:\s]*"
    r"|问题是(?:这个)?[，,：:\s]+"
    r"|\b(?:my question|(?:want|meant?) to (?:ask|know))(?: is)?[,:\s]+",
    re.IGNORECASE,
)
"""Phrases that introduce the actual question, such as "what I want to know is"."""
_ENDS_ASKING: Final = re.compile(rf"{_MARKED}|[吗呢][\s。]*$")
_ENDS_MARKED: Final = re.compile(_MARKED)
_SUPPOSES: Final = re.compile(rf"{_LEADING}(?:if|whether|unless)\b|^(?:如果|要是|假如|万一)", re.IGNORECASE)
_MAX_QUESTION_CHARS: Final = {Language.CHINESE: 30, Language.ENGLISH: 90}
"""Maximum number of characters in a question clause without a question mark."""
_MIN_STATEMENT_SIZE: Final = {Language.CHINESE: 4, Language.ENGLISH: 3}
"""Minimum number of characters (Chinese) or words (English) in a statement. Excludes "对了" and "hmm"."""
_SPEAKER: Final = re.compile(r"\b(?:I|[Ww]e)\b|[我咱](?!们?的)")
"""The speaker as a subject. "My allergies" is a keyword query, "I am allergic" is a statement."""
_REFERS_BACK: Final = re.compile(
    r"\b(?:it|its|this|those|these|they|them|their|he|she|him|his|her)\b|\b(?:that|there|then)(?=\s*(?:[?？.!,]|$))|"
    r"[那这]|(?<!其)[他她它]",
    re.IGNORECASE,
)


def contains_question(text: str) -> bool:
    """Return whether a text contains a question."""
    return _ASKS.search(text) is not None


def ends_in_question(text: str) -> bool:
    """Return whether a text ends with a question."""
    return _ENDS_ASKING.search(text) is not None


def is_request(text: str) -> bool:
    """Return whether a text has the form of a request."""
    return _REQUESTS.search(text) is not None


def announces_question(text: str) -> bool:
    """Return whether a text announces a question: "what I want to know is …"."""
    return _ANNOUNCEMENT.search(text) is not None


def find_question_sentences(text: str) -> list[str]:
    """Return the last four question sentences; the whole text if it has no question sentence.

    A question that refers to the previous statement, such as "Where is this place?", is returned with that statement.
    If the text announces its question, sentences before the announcement are ignored.
    """
    announced: list[str] = []
    others: list[str] = []
    statement = ""
    for sentence in split_sentence_texts(text):
        if text_after := _extract_announced_question(sentence):
            announced.append(text_after)
            others.clear()
            statement = ""
        elif contains_question(sentence):
            others.append(f"{statement} {sentence}".strip() if has_back_reference(sentence) else sentence)
            statement = ""
        else:
            statement = sentence if _has_minimum_length(sentence) else ""
    return [*announced, *others][-_MAX_SENTENCES:] or [text.strip()]


def _extract_announced_question(sentence: str) -> str:
    """Return the text after the announcement of a question; empty if the sentence announces no question."""
    match = _ANNOUNCEMENT.search(sentence)
    announced = sentence[match.end() :] if match else ""
    return announced if contains_question(announced) else ""


def is_statement(text: str) -> bool:
    """Return whether a text is a statement, and not a question, a request or a list of keywords."""
    if contains_question(text) or _REQUESTS.search(text):
        return False
    return bool(_SPEAKER.search(text) or CLAUSE_END.search(text) or SENTENCE_END.search(text))


def has_back_reference(text: str) -> bool:
    """Return whether a text has a pronoun, such as "it" or "那", that may refer to an earlier message."""
    return _REFERS_BACK.search(text) is not None


def contains_only_questions(text: str) -> bool:
    """Return whether a text contains only questions, with or without question marks, and no statement.

    For example, "The 14th is near, what do I give her?" contains a statement.
    """
    clauses = [_detect_question_and_statement(sentence) for sentence in split_sentence_texts(text)]
    return any(has_question for has_question, _ in clauses) and not any(has_statement for _, has_statement in clauses)


def _detect_question_and_statement(sentence: str) -> tuple[bool, bool]:
    """Return whether a sentence contains a question, and whether it contains a statement.

    If the sentence ends with a question mark, clauses after the question clause belong to the question.
    """
    clauses = [stripped for clause in CLAUSE_END.split(sentence) if (stripped := clause.strip())]
    if _ENDS_MARKED.search(sentence):
        return True, _contains_statement(takewhile(lambda clause: not _is_question_clause(clause), clauses[:-1]))
    return any(map(_is_question_clause, clauses)), _contains_statement(
        clause for clause in clauses if not _is_question_clause(clause)
    )


def _is_question_clause(clause: str) -> bool:
    language = detect_language(clause)
    question_pattern = _ASKS_CHINESE if language is Language.CHINESE else _ASKS_ENGLISH
    return len(clause) <= _MAX_QUESTION_CHARS[language] and question_pattern.search(clause) is not None


def _contains_statement(clauses: Iterable[str]) -> bool:
    return any(_has_minimum_length(clause) and not _SUPPOSES.search(clause) for clause in clauses)


def _has_minimum_length(clause: str) -> bool:
    language = detect_language(clause)
    size = len(clause) if language is Language.CHINESE else len(clause.split())
    return size >= _MIN_STATEMENT_SIZE[language]
