"""Stances: what somebody does or likes, and does not, as in 不吃辣 and "I love spicy food"."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import regex  # type: ignore[import-untyped]  # it ships without types

from nomemory.recall.passages.aspects import content
from nomemory.recall.passages.thesaurus import Sense
from nomemory.text.terms import stem, terms, word_set

CONSUME, LIKE = "consume", "like"

_FAMILIES = {
    **dict.fromkeys(["吃", "喝", "碰", "沾", "eat", "drink"], CONSUME),
    **dict.fromkeys(["喜欢", "爱", "讨厌", "like", "love", "enjoy", "ador", "hate", "dislik", "stand"], LIKE),
}
_DISLIKING = frozenset(["讨厌"])
_DISLIKING_WITHOUT_NOT = frozenset(["hate", "dislik"])

_HAN_VERB = (
    "吃|喝|碰|沾|喜欢|爱|讨厌|去(?!年)|抽|养|用|穿|看(?!到|见)|听(?!说)|玩|打(?!算|卡)|学(?!校|生)|开(?!始|心|会)"
    "|坐|住(?!院)|信|骑|戴|摔断|骨折"
)
_HAN_OBJECT = r"(?P<object>(?:(?![了的着过啊呢吧吗也都就还又和跟得不没再吃喝])\p{Han}){1,5}|\s?[a-z]+)"
_HAN_STANCE = regex.compile(
    r"(?P<never>从来?没有?|没有?)?(?P<negative>从来不|再也不|从不|不再|不(?!是|得不|过)|戒了?)?"
    r"(?P<mood>(?:能|会|想|敢|可以|太|怎么|再|喜欢|爱)*)"
    rf"(?P<verb>{_HAN_VERB})(?P<done>[过了])?{_HAN_OBJECT}"
)
_HAN_FRONTED = regex.compile(
    r"(?P<object>(?:(?![我你他她的了但也都就还不没])\p{Han}){1,5})(?:我|现在|还是|已经|真的|都|也|就|可)*"
    rf"(?P<negative>不|没法|没办法)(?:能|会|敢|想|可以|太)*(?P<verb>行|{_HAN_VERB})(?:了|啦|的)?(?:$|[,，])"
)
_ENGLISH_STANCE = regex.compile(
    r"\b(?:i|we)(?:'ve|'m|'d|'ll| have| am| would| will)?"
    r"(?: (?:really|also|still|just|actually|always|absolutely|now|even|can|do|going to))*"
    r"(?P<negative> (?:don't|do not|never|can't|cannot|can not|no longer|won't|gave up|stopped|quit|avoid))?"
    r"(?: (?:really|even|ever|usually))?"
    r" (?P<verb>\p{L}+)(?P<object>(?: [\p{L}'-]+){0,6})"
)
_MORE = r"any ?more|any longer|now|again|at all|these days"
_OBJECT_END = regex.compile(
    rf"\b(?:{_MORE}|at|in|on|with|because|when|but|and|since|for|so|if|after|before|any|from|than|that|which|who|though"
    r"|too|as|these|every|without|while|until|unless)\b.*"
)
_LIMITED = regex.compile(
    r"\b(?:at(?! all)|in(?! my life| years| ages)|on|with|when|if|after|before|for|from|that|too"
    r"|every|without|while|until|unless)\b"
)
_NO_STANCE = frozenset(
    map(
        stem,
        word_set(
            """
            think know mean want have be feel guess hope believe remember say see need get got had was were do did not
            to tell said thought told wonder mind care find found suppose understand try
            """
        ),
    )
)
_GENERIC = frozenset(map(stem, ("food", "thing", "stuff", "dish", "meal")))
_GENERIC_TAIL = frozenset(["", "椒", "的", "菜", "食", "食物", "味", "东西", "类"])
_VAGUE = frozenset(["东西", "饭", "什么"])


@dataclass(frozen=True, slots=True)
class Stance:
    """Somebody's stance on an object: `family` is what they do with it, `words` and `han` name it."""

    family: str
    positive: bool
    words: frozenset[str]
    han: str
    sense: Sense

    def contradicts(self, other: Stance) -> bool:
        """Return whether one denies what the other says: all of a kind, where the other has one of that kind."""
        if self.positive == other.positive:
            return False
        denied, said = (other, self) if self.positive else (self, other)
        return _comparable(denied, said) and _is_kind_of(said, denied)


def stances(text: str) -> list[Stance]:
    """Return the stances in a plain text. Single occasions on which something was not done are none."""
    return [*_in_han(text), *_in_english(text)]


def _in_han(text: str) -> Iterator[Stance]:
    for match in _HAN_STANCE.finditer(text):
        denied = match["never"] or match["negative"]
        if _is_no_stance(match):
            continue
        positive = bool(denied) == (match["verb"] in _DISLIKING)
        yield _stance(match["verb"], match["object"], positive=positive)
        if "爱" in match["mood"] or "喜欢" in match["mood"]:
            yield _stance("喜欢", match["object"], positive=positive)
    for match in _HAN_FRONTED.finditer(text):
        yield _stance("吃" if match["verb"] == "行" else match["verb"], match["object"], positive=False)


def _is_no_stance(match: regex.Match[str]) -> bool:
    """Return whether it is a single occasion (没吃饭), nothing in particular (吃东西), or a wish (想吃鱼)."""
    if match["never"] and not match["done"]:
        return True
    return match["object"] in _VAGUE or ("想" in match["mood"] and not match["negative"])


def _in_english(text: str) -> Iterator[Stance]:
    for match in _ENGLISH_STANCE.finditer(text):
        verb = stem(match["verb"])
        if verb in _NO_STANCE or (match["negative"] and _LIMITED.search(match["object"])):
            continue
        positive = bool(match["negative"]) == (verb in _DISLIKING_WITHOUT_NOT)
        yield _stance(verb, _OBJECT_END.sub("", match["object"]), positive=positive)


def _stance(verb: str, what: str, *, positive: bool) -> Stance:
    han = "".join(regex.findall(r"\p{Han}+", what))
    words = frozenset() if han else terms(what) - _GENERIC
    return Stance(_FAMILIES.get(verb, verb), positive, words, han, content(han or " ".join(words)).sense)


def _comparable(denied: Stance, said: Stance) -> bool:
    """Return whether both are about doing the same; who likes something but does not take it says both."""
    return denied.family == said.family or (denied.family, said.family) == (CONSUME, LIKE)


def _is_kind_of(said: Stance, denied: Stance) -> bool:
    """Return whether what is said falls under what is denied: 微辣 under 辣, a wrist under bones."""
    if denied.han and said.han:
        return said.han.endswith(denied.han) or (
            said.han.startswith(denied.han) and said.han[len(denied.han) :] in _GENERIC_TAIL
        )
    if denied.words and said.words and denied.words <= said.words:
        return True
    if not (denied.words or denied.han or said.words or said.han):
        return True
    named = denied.sense.named
    return bool(named) and named <= said.sense.concepts
