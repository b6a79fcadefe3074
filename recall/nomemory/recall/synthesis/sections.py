"""Sorts a statement into the section of the memory view where it belongs."""

from __future__ import annotations

import regex  # type: ignore[import-untyped]  # it ships without types

from nomemory.recall.model.memory_view import Section
from nomemory.text.normalisation import plain

_ALLERGY = regex.compile(r"过敏(?!源)|荨麻疹|不耐受|忌口|\ballerg|\bintoleran|\b(?:in|into|get) hives\b|没得商量")
_FORMAT = regex.compile(
    r"(?:以后|今后|每次).{0,60}(?:按|用|给我|别|不要|写)|都按|要点|格式|写法"
    r"|\bbullet|\bfrom now on\b|\bin future\b|\bkeep it\b|\bbottom line first\b|\bno tables\b"
)
_PREFERENCE = regex.compile(
    r"喜欢|爱(?:吃|喝|看|听|玩|好|画)|最爱|偏爱|讨厌|受不了|(?:不|(?<!不)能|爱|只|想|又|还|从不"
    r"|开始)吃|(?:不|(?<!不)能|爱)喝|吃素|素食|习惯|想要|宁愿|更愿意|给我用|口味|老样子|夜猫子"
    r"|早起|清淡|重口|[微中特]辣|清汤"
    r"|\bi(?:'d| would)? (?:really |also |always )?(?:like|love|prefer|enjoy|hate|dislike|adore)\b"
    r"|\bi'd rather\b|\bfavou?rite\b"
    r"|\bcan't stand\b|\bnot a fan\b|\ba fan of\b|\bvegetarian\b|\bvegan\b|\bi (?:never|don't"
    r"|do not|no longer) (?:eat|drink)\b"
    r"|\bgoing to eat\b|\bno meat\b|\bplease\b|\b(?:night owl|early bird|morning person)\b"
)
_CONSTRAINT = regex.compile(
    r"必须|一定要|不能|不可以|不许|不准|禁止|务必|不得|截止|期限|之前(?:要|得|把|必须)|号前|日前"
    r"|交稿|别(?:放|加|给|让|再|建议|忘)|不要(?!紧)"
    r"|\bmust(?:n't)?\b|\bcannot\b|\bcan't (?!stand|believe|wait|sing|tell|help|imagine)"
    r"|\bdeadline\b|\bdue\b|\bhave to be\b"
    r"|^never\b|\bnever (?:again|allow|put)\b|\bno more than\b|\bat most\b|\bunder \d+ words\b"
    r"|\bby (?:\w+ )?(?:the )?\d|\bforbidden\b"
)


def section_of(text: str) -> Section:
    """Return the section: allergies before wishes for a format, those before likes, those before other limits."""
    simple = plain(text)
    if _ALLERGY.search(simple):
        return Section.CONSTRAINTS
    if _FORMAT.search(simple) or _PREFERENCE.search(simple):
        return Section.PREFERENCES
    if _CONSTRAINT.search(simple):
        return Section.CONSTRAINTS
    return Section.PROFILE
