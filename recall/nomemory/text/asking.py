"""Questions as queries: the sentences that ask, their words for a search by words, their text for one by meaning."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from nomemory.text.question_words import ASKING_CHINESE, ASKS, REDIRECTS, STOP_ENGLISH

_MAX_SENTENCES: Final = 4
_MAX_REDIRECTS: Final = 8
"""Of the redirects of a part, the last are looked at: what follows each is read to its end."""
_MAX_TERMS: Final = 100
"""Below what the server takes in a query; a run of Chinese is about as many terms as characters."""
_CHINESE: Final = re.compile(r"[\u3400-\u9fff]")
_BESIDES: Final = re.compile(r"另外[，,]|还有[，,]|\b(?:also|by the way),", re.IGNORECASE)
_QUOTED: Final = re.compile(r"[“「『\"]([^”」』\"]{1,60})[”」』\"]|《([^》]{1,60})》")
_SENTENCE: Final = re.compile(
    r"(?:[“「『《][^”」』》]{0,100}[”」』》]|\"[^\"]{0,100}\"|[。！；]的|[^。！？!?；;\n])+[。！？!?；;]*"
)
_OPENERS: Final = re.compile(r"((?:我|其实|真正|实际|那个){6})(?:我|其实|真正|实际|那个)+")
"""More words that open a redirect than anybody needs; a search for redirects tries each of a run with every other."""
_WORD: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9'’.+#@-]*[A-Za-z0-9+#]|[A-Za-z0-9]|[\u3400-\u9fff]+")
_SAID: Final = re.compile(
    r"(?:我是不是|我有没有|我)(?:曾经|以前|之前)?(?:说|提|讲|聊)(?:过|到过)(?:我)?(.{2,20}?)(?:吗|吧|么|来着)?[?？。,，]"
)
_SAID_ENGLISH: Final = re.compile(
    r"\bdid I (?:ever )?(?:say|tell you|mention)(?: that)? (?:I (?:was|am|'m|’m) )?(.{3,60}?)[?.,]", re.IGNORECASE
)
_SUBJECT: Final = re.compile(
    r"\b(?:did|does|do|is|are|was|were|has|have|had|would|will|can|could|should|and|might)\s+([A-Z][a-z]+)\b"
    r"|\b([A-Z][a-z]+)['’]s\b"
)
_NOT_NAMES: Final = frozenset(_WORD.findall("I The My Our Your We You Mr Mrs Ms Dr"))


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
    """Return what the question wants in so many words: what is quoted, and X in “did I say X”."""
    quoted = [first or second for first, second in _QUOTED.findall(text)]
    said = [found.strip() for found in _SAID.findall(unquoted(text) + "。") if not ASKS.search(found)]
    return _once([*quoted, *said, *_SAID_ENGLISH.findall(unquoted(text))])


def unquoted(text: str) -> str:
    """Leave out what is quoted: its words are not the asker's."""
    return _QUOTED.sub(" ", text)


def people(text: str) -> list[str]:
    """Return the names that stand where an English question names a person: “did Ann …”, “Ann’s …”."""
    names = [first or second for first, second in _SUBJECT.findall(text)]
    return _once(name for name in names if name not in _NOT_NAMES)


def content_words(text: str) -> list[str]:
    """Return the words of a question that can stand in an answer: Chinese runs, English words without stop words."""
    bare = ASKING_CHINESE.sub(" ", text)
    return _once(word[:_MAX_TERMS] for word in _WORD.findall(bare) if word.lower() not in STOP_ENGLISH)


def words_query(words: Iterable[str], phrases: Iterable[str] = ()) -> str:
    """Write a query of words and exact phrases, within what a query may hold; nothing in it is an operator."""
    quoted = [f'"{phrase}"' for phrase in (phrase.replace('"', " ").strip() for phrase in phrases) if phrase]
    plain = [word.lower() if word in {"AND", "OR", "NOT"} else word for word in words]
    return " ".join(_fitting(_once([*quoted, *plain])))


def _fitting(words: Iterable[str]) -> Iterator[str]:
    room = _MAX_TERMS
    for word in words:
        terms = len(word) if _CHINESE.search(word) else 1
        if terms > room:
            return
        yield word
        room -= terms


def without_names(text: str, names: Iterable[str]) -> str:
    """Strip the names of speakers: what they say holds their names rarely, greetings do."""
    for name in names:
        text = re.sub(rf"\b{re.escape(name)}\b(?:['’]s)?", " ", text, flags=re.IGNORECASE)
    return " ".join(text.split())


def _once(items: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(items))
