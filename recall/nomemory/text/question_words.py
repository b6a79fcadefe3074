"""Extract the words and phrases of a question that can occur in an answer, and build a query from them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from nomemory.text.language import CHINESE, Language, detect_language
from nomemory.text.question_detection import contains_question
from nomemory.text.sentences import find_quotations, remove_quotations
from nomemory.text.stop_words import CONVERSATIONAL_STOP_WORDS

_MAX_TERMS: Final = 100
"""Maximum number of terms in a generated query, below the server's limit. Chinese has about one term per character."""
_ASKING_CHINESE_WORDS: Final = """
请问 你还记不记得 还记不记得 你还记得 你记得 记不记得 还记得 记得 我是不是 是不是 有没有 能不能
可不可以 是否 我们上次 上次 之前 以前 最近 现在 后来 到底 究竟 大概 一下 告诉我 帮我 想知道
什么时候 什么样 什么 怎么样 怎样 怎么 为什么 为何 哪一天 哪一个 哪一年 哪一次 哪里 哪儿
哪天 哪个 哪些 哪位 哪年 几点 几岁 多少 多久 多大 如何 谁 说过 提到过 提到 聊到 聊过
曾经 那个 这个 那些 这些 我们 咱们 你们 我 你 的 了 吗 呢 吧 啊
是 或者 以及 另外 还有
"""
_ASKING_CHINESE: Final = re.compile("|".join(_ASKING_CHINESE_WORDS.split()))
"""Chinese question words, longer words before their prefixes."""
_WORD: Final = re.compile(rf"[A-Za-z0-9][A-Za-z0-9'’.+#@-]*[A-Za-z0-9+#]|[A-Za-z0-9]|[{CHINESE}]+")
_REPORTED_CHINESE: Final = re.compile(
    r"(?:我是不是|我有没有|我)(?:曾经|以前|之前)?(?:说|提|讲|聊)(?:过|到过)(?:我)?(.{2,20}?)(?:吗|吧|么|来着)?[?？。,，]"
)
_REPORTED_ENGLISH: Final = re.compile(
    r"\bdid I (?:ever )?(?:say|tell you|mention)(?: that)? (?:I (?:was|am|'m|’m) )?(.{3,60}?)[?.,]", re.IGNORECASE
)


def extract_exact_phrases(text: str) -> list[str]:
    """Return the phrases that an answer must contain: quotations, and X in "did I say X"."""
    unquoted_text = remove_quotations(text)
    reported_phrases = [
        phrase.strip() for phrase in _REPORTED_CHINESE.findall(unquoted_text + "。") if not contains_question(phrase)
    ]
    return list(dict.fromkeys([*find_quotations(text), *reported_phrases, *_REPORTED_ENGLISH.findall(unquoted_text)]))


def remove_question_words(text: str) -> str:
    """Remove Chinese question words."""
    return _ASKING_CHINESE.sub(" ", text)


def extract_content_words(text: str) -> list[str]:
    """Return the content words of a question: runs of Chinese characters, and English words that are not stop words."""
    words = _WORD.findall(remove_question_words(text))
    return list(dict.fromkeys(word[:_MAX_TERMS] for word in words if word.lower() not in CONVERSATIONAL_STOP_WORDS))


def build_words_query(words: Iterable[str], phrases: Iterable[str] = ()) -> str:
    """Build a query of words and exact phrases, within the query limits.

    Query operators among the words become plain words.
    """
    quoted_phrases = [f'"{phrase}"' for phrase in (phrase.replace('"', " ").strip() for phrase in phrases) if phrase]
    plain_words = [word.lower() if word in {"AND", "OR", "NOT"} else word for word in words]
    return " ".join(_limit_term_count(dict.fromkeys([*quoted_phrases, *plain_words])))


def _limit_term_count(words: Iterable[str]) -> Iterator[str]:
    remaining_terms = _MAX_TERMS
    for word in words:
        term_count = len(word) if detect_language(word) is Language.CHINESE else 1
        if term_count > remaining_terms:
            return
        yield word
        remaining_terms -= term_count
