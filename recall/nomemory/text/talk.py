"""Tells what somebody says in a talk from what they ask: a statement is no question, and a request is none."""

from __future__ import annotations

import re
from typing import Final

from nomemory.text.question_words import ASKS

_REQUESTS: Final = re.compile(
    r"总结|列(?:一下|出|个|举)|整理|归纳|回顾|回忆一下|告诉|说说|讲讲|介绍|提醒|帮我|给我|^\s*(?:请|按|把|查|找)|"
    r"^\s*(?:please\s+)?(?:list|give|show|find|name|recall|describe|explain|write|make|get|look|check|search|help|"
    r"compare|tell|summari[sz]e|remind)\b",
    re.IGNORECASE,
)
_SPEAKER: Final = re.compile(r"\b(?:I|[Ww]e)\b|[我咱](?!们?的)")
"""The speaker as a subject: “my allergies” are keywords, “I am allergic” is a statement."""
_CLAUSES: Final = re.compile(r"[，,；;。！…~]|[.!](?:\s|$)")
_REFERS_BACK: Final = re.compile(
    r"\b(?:it|its|this|those|these|they|them|their|he|she|him|his|her)\b|\b(?:that|there|then)(?=\s*(?:[?？.!,]|$))|"
    r"[那这]|(?<!其)[他她它]",
    re.IGNORECASE,
)


def is_statement(text: str) -> bool:
    """Return whether a text is what somebody says in a talk: it asks for nothing, and is more than keywords."""
    if ASKS.search(text) or _REQUESTS.search(text):
        return False
    return bool(_SPEAKER.search(text) or _CLAUSES.search(text))


def refers_back(text: str) -> bool:
    """Return whether a text has a word such as “it” or “那”, which what was said before may resolve."""
    return bool(_REFERS_BACK.search(text))
