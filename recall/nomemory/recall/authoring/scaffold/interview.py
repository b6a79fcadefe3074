"""The questions that a creator may ask, at most three, each with a default that works."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from nomemory.recall.authoring.scaffold.scenario import Language
from nomemory.recall.model.question import Role


class Emphasis(Enum):
    """What searches begin with."""

    BALANCED = "balanced"
    WORDS = "words"
    MEANING = "meaning"


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers; a question that was not asked has its default."""

    role: Role = Role.USER
    time_range: str = "P30D"
    emphasis: Emphasis = Emphasis.BALANCED


@dataclass(frozen=True, slots=True)
class Choice:
    """A question with three options, `A`, `B` and `C`, by language. `A` is the default. `field` is what it decides."""

    field: str
    asks: dict[Language, str]
    options: tuple[tuple[object, dict[Language, str]], ...]

    def value(self, letter: str) -> object:
        """Return what a letter stands for."""
        return self.options["ABC".index(letter.upper())][0]


def _said(chinese: str, english: str) -> dict[Language, str]:
    return {Language.CHINESE: chinese, Language.ENGLISH: english}


QUESTIONS: Final = (
    Choice(
        "role",
        _said("谁说的话算证据？", "Whose words count as evidence?"),
        (
            (Role.USER, _said("用户本人说的", "the user's own")),
            (Role.ANY, _said("用户说的，和助手答应过的", "the user's, and what the assistant promised")),
            (Role.ASSISTANT, _said("只看助手说过的", "the assistant's only")),
        ),
    ),
    Choice(
        "time_range",
        _said("问题没有提到时间时，先看多远？", "How far back, where a question names no time?"),
        (
            ("P30D", _said("最近 30 天，不够再放宽", "30 days, wider if that is too little")),
            ("P180D", _said("半年", "half a year")),
            ("all", _said("全部", "everything")),
        ),
    ),
    Choice(
        "emphasis",
        _said("通常怎样找？", "What are searches mostly like?"),
        (
            (
                Emphasis.BALANCED,
                _said("偏好和背景按意思，确切的要求按原词", "likes and background by meaning, rules by words"),
            ),
            (
                Emphasis.WORDS,
                _said("多是确切的词：人名、产品、编号、金额", "exact words: people, products, numbers, sums"),
            ),
            (
                Emphasis.MEANING,
                _said("多是换了说法的意思：心情、想法、经历", "paraphrase: moods, thoughts, experiences"),
            ),
        ),
    ),
)


def answered(letters: dict[str, str]) -> Answers:
    """Return the answers for letters by the fields of their questions."""
    chosen = {one.field: one.value(letters.get(one.field, "A")) for one in QUESTIONS}
    return Answers(**chosen)  # type: ignore[arg-type]  # each option has the type of its field
