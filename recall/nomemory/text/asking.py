"""The sentences of a text that ask, their words and phrases, and the query that these make."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from nomemory.text.language import CHINESE, Language, language_of
from nomemory.text.question_words import ASKING_CHINESE, ASKS, REDIRECTS
from nomemory.text.stop_words import QUESTION_STOP_WORDS

_MAX_SENTENCES: Final = 4
_MAX_REDIRECTS: Final = 8
"""How many redirects of a part are looked at, from the last: what follows each is read to its end."""
_MAX_TERMS: Final = 100
"""Fewer than a query may have; a run of Chinese is about as many terms as characters."""
_BESIDES: Final = re.compile(r"另外[，,]|还有[，,]|\b(?:also|by the way),", re.IGNORECASE)
_QUOTED: Final = re.compile(r"[“「『\"]([^”」』\"]{1,60})[”」』\"]|《([^》]{1,60})》")
_SENTENCE: Final = re.compile(
    r"(?:[“「『《][^”」』》]{0,100}[”」』》]|\"[^\"]{0,100}\"|[。！；]的|[^。！？!?；;\n])+[。！？!?；;]*"
)
_OPENERS: Final = re.compile(r"((?:我|其实|真正|实际|那个){6})(?:我|其实|真正|实际|那个)+")
"""A long run of words that open a redirect; it is cut, because a search tries each of a run with every other."""
_WORD: Final = re.compile(rf"[A-Za-z0-9][A-Za-z0-9'’.+#@-]*[A-Za-z0-9+#]|[A-Za-z0-9]|[{CHINESE}]+")
_SAID: Final = re.compile(
    r"(?:我是不是|我有没有|我)(?:曾经|以前|之前)?(?:说|提|讲|聊)(?:过|到过)(?:我)?(.{2,20}?)(?:吗|吧|么|来着)?[?？。,，]"
)
_SAID_ENGLISH: Final = re.compile(
    r"\bdid I (?:ever )?(?:say|tell you|mention)(?: that)? (?:I (?:was|am|'m|’m) )?(.{3,60}?)[?.,]", re.IGNORECASE
)
_ENDS_ASKING: Final = re.compile(r"[?？][\s\"”'）)]*$|[吗呢][\s。]*$")


def ends_asking(text: str) -> bool:
    """Return whether a text ends with a question."""
    return bool(_ENDS_ASKING.search(text))


def asking_sentences(text: str) -> list[str]:
    """Return the sentences that ask, at most four; the whole text if none seems to."""
    asking = [sentence for part in _BESIDES.split(text) for sentence in _asking(part)]
    return asking[-_MAX_SENTENCES:] or [text.strip()]


def _asking(part: str) -> list[str]:
    """Return what is asked after a phrase like “what I really want to know is”, or else every sentence that asks."""
    redirected = _redirected(part)
    sentences = (found.strip() for found in _SENTENCE.findall(redirected))
    return [sentence for sentence in sentences if ASKS.search(sentence)]


def _redirected(part: str) -> str:
    part = _OPENERS.sub(r"\1", part)
    for match in reversed(list(REDIRECTS.finditer(part))[-_MAX_REDIRECTS:]):
        rest = part[match.end() :].strip()
        if ASKS.search(rest):
            return rest
    return part


def exact_phrases(text: str) -> list[str]:
    """Return the exact phrases that a question asks for: what is quoted, and X in “did I say X”."""
    quoted = [first or second for first, second in _QUOTED.findall(text)]
    said = [found.strip() for found in _SAID.findall(unquoted(text) + "。") if not ASKS.search(found)]
    return _once([*quoted, *said, *_SAID_ENGLISH.findall(unquoted(text))])


def unquoted(text: str) -> str:
    """Remove quoted text: its words are not the asker's."""
    return _QUOTED.sub(" ", text)


def without_asking_words(text: str) -> str:
    """Remove the Chinese words that only ask."""
    return ASKING_CHINESE.sub(" ", text)


def content_words(text: str) -> list[str]:
    """Return the words of a question that can stand in an answer: Chinese runs, English words without stop words."""
    words = _WORD.findall(without_asking_words(text))
    return _once(word[:_MAX_TERMS] for word in words if word.lower() not in QUESTION_STOP_WORDS)


def words_query(words: Iterable[str], phrases: Iterable[str] = ()) -> str:
    """Write a query of words and exact phrases, within what a query may hold; nothing in it is an operator."""
    quoted = [f'"{phrase}"' for phrase in (phrase.replace('"', " ").strip() for phrase in phrases) if phrase]
    plain = [word.lower() if word in {"AND", "OR", "NOT"} else word for word in words]
    return " ".join(_fitting(_once([*quoted, *plain])))


def _fitting(words: Iterable[str]) -> Iterator[str]:
    room = _MAX_TERMS
    for word in words:
        terms = len(word) if language_of(word) is Language.CHINESE else 1
        if terms > room:
            return
        yield word
        room -= terms


def _once(items: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(items))
