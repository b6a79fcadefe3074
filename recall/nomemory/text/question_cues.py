"""Patterns that tell what kind of answer a question wants: when, how many, of whom, or how things stand now."""

from __future__ import annotations

import re
from typing import Final

_WHEN: Final = r"\bwhen\b|\bwhat (?:date|day|time)\b|什么时候|哪[天年]|几[号月点]"

ASKS_WHEN: Final = re.compile(
    rf"{_WHEN}|\bwhat (?:month|year|week)\b|\bwhich (?:date|day|month|year|time|week)\b|\bhow long\b|何时|哪月|多久",
    re.IGNORECASE,
)
"""It asks when something was, or how long it took: a message that says “yesterday” may answer."""

FIRST_PERSON: Final = re.compile(r"\b(?:I|me|my|mine|we|us|our)\b|我|咱|俺")
"""The asker speaks of themselves. Case counts: “US” is a country."""

ASKS_FOR_LATEST: Final = re.compile(
    r"最近|最新|上次|上回|现在|目前|进展|进度|怎样了|怎么样了"
    r"|\b(?:latest|last time|currently|now|still|going|how far|last (?:talked|spoke))\b",
    re.IGNORECASE,
)
"""It asks how things stand now."""

ASKS_OF_ASSISTANT: Final = re.compile(
    r"\b(?:did|have|had) you (?:ever |already |just )?"
    r"(?:sa(?:y|id)|t[eo]ll?d?|recommend|suggest|promise|advise|propose|mention|offer|agree|explain|answer)"
    r"|\byou(?: have| had|['’]ve|['’]d)? (?:ever |already |just )?"
    r"(?:said|told|recommended|suggested|promised|advised|proposed|mentioned|offered|agreed|explained|answered)\b"
    r"|\byour (?:recommendation|suggestion|advice|promise|answer|explanation)"
    r"|(?<![跟给对向和同诉])[你您](?:们|之前|以前|上次|上回|曾经|曾|当时|那天|昨天|最近|都|还|也|有没有|是不是|[给跟帮向对和]我)*"
    r"(?:答应|承诺|保证|推荐|建议|介绍|解释|回答|告诉|提醒|说|讲|提)(?:[给过]?我)?(?:[过了的]|什么|哪)",
    re.IGNORECASE,
)
"""It asks about something that the assistant has said."""
