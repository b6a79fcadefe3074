"""A draft of a skill, made of a sentence and the answers to three questions.

The sentence that a skill is made from.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final

from nomemory.recall.errors import RecallError
from nomemory.recall.model.question import Role
from nomemory.recall.skills.frontmatter import is_host_setting
from nomemory.recall.skills.steering.template import TemplateIntent
from nomemory.recall.tools.definitions import LEXICAL_SEARCH, MESSAGES_LIST, SEMANTIC_SEARCH
from nomemory.text.language import Language
from nomemory.text.stop_words import COMPARISON_STOP_WORDS

SCENARIO_CHARS_MAX: Final = 600
_CHINESE: Final = re.compile(r"[\u3400-\u9fff\uf900-\ufaff]")
_SENTENCE_END: Final = re.compile(r"[。！？!?；;\n]|\.\s")
_USER_ID: Final = re.compile(
    r"(?:user|tenant|account|owner|x)[^A-Za-z0-9\s]?(?=ids?(?![a-z]))|(?<![A-Za-z])uid(?![A-Za-z])", re.IGNORECASE
)
_CALL: Final = re.compile(r"([A-Za-z])[ \t]?[(（](?=[^()（）]*\b(?:user|tenant|owner|account|identity|subject)s?\b)")
_SYNTAX: Final = str.maketrans('`_{}[]<>|#*=~\\"$^', "＇＿｛｝［］＜＞｜＃＊＝～＼＂＄＾")
"""What Markdown, frontmatter or a call could be made of, and forms of it that only people read."""


_HEADLINE_CHARS: Final = 60


class EmptyScenarioError(RecallError, ValueError):
    """There is no sentence to make a skill from."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """What a skill is for, on one line, with nothing in it that could be taken for markup or a call."""

    text: str
    language: Language

    @property
    def headline(self) -> str:
        """Return its first sentence, short enough for a heading."""
        first = _SENTENCE_END.split(self.text, maxsplit=1)[0].strip()
        return first if len(first) <= _HEADLINE_CHARS else f"{first[:_HEADLINE_CHARS].rstrip()}…"


def read_scenario(given: str, language: Language | None = None) -> Scenario:
    """Take a sentence as somebody typed it; what is longer than `SCENARIO_CHARS_MAX` is cut.

    Args:
        given: any text.
        language: what to write in; None: Chinese if there is any Chinese in it, else English.

    Raises:
        EmptyScenarioError: there is no letter and no digit in it.
    """
    text = _one_line(given)
    if not any(map(str.isalnum, text)):
        raise EmptyScenarioError("a scenario has a letter or a digit at least")
    if len(text) > SCENARIO_CHARS_MAX:
        text = f"{text[: SCENARIO_CHARS_MAX - 1].rstrip()}…"
    return Scenario(_plain(text), language or language_of(text))


def language_of(text: str) -> Language:
    """Return the language of a sentence: any Chinese makes it Chinese."""
    return Language.CHINESE if _CHINESE.search(text) else Language.ENGLISH


def _one_line(text: str) -> str:
    """Drop what is not seen, and what makes or ends a line."""
    whole = text.encode("utf-8", "replace").decode("utf-8")
    seen = (" " if unicodedata.category(char) in {"Cc", "Zl", "Zp"} else char for char in whole)
    return " ".join("".join(char for char in seen if unicodedata.category(char) not in {"Cf", "Cn", "Co"}).split())


def _plain(text: str) -> str:
    return _CALL.sub(r"\1 · ", _USER_ID.sub("user ", text.translate(_SYNTAX))).replace("://", "：／／")


NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")
_WORD: Final = re.compile(r"[a-z0-9]{2,20}")
_WORDS_MAX: Final = 4
_CHARS_MAX: Final = 64
_IDLE: Final = COMPARISON_STOP_WORDS | {"assistant", "app", "bot", "agent", "ai", "help", "helps", "helping", "recall"}
TOP_K: Final = 20


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


_FIRST: Final = MappingProxyType(
    {
        Emphasis.BALANCED: (SEMANTIC_SEARCH, SEMANTIC_SEARCH, LEXICAL_SEARCH),
        Emphasis.WORDS: (LEXICAL_SEARCH, LEXICAL_SEARCH, LEXICAL_SEARCH),
        Emphasis.MEANING: (SEMANTIC_SEARCH, SEMANTIC_SEARCH, SEMANTIC_SEARCH),
    }
)
"""Preferences, profile, constraints; a schedule is listed."""


@dataclass(frozen=True, slots=True)
class _Words:
    """Words that mean the same, Chinese and English; in a lexicon the first of the skill's language is canonical."""

    chinese: tuple[str, ...]
    english: tuple[str, ...]

    def ordered(self, language: Language) -> tuple[str, ...]:
        """Return them with a language's first."""
        return self.chinese + self.english if language is Language.CHINESE else self.english + self.chinese


def _words(text: str) -> _Words:
    chinese, _, english = text.partition(" = ")
    return _Words(tuple(chinese.split("、")), tuple(english.split(", ")))


_GENERAL: Final = tuple(
    map(
        _words,
        (
            "会议、开会、约谈 = meeting, appointment",
            "截止、期限、最后期限 = deadline, due date",
            "计划、打算、安排 = plan, going to, schedule",
            "预算、花费、价格 = budget, cost, price",
        ),
    )
)
"""What a lexicon starts with: words that mean the same in every business."""

_TOLD: Final = {
    "preferences": _words("喜欢、不喜欢、习惯、更愿意 = like, prefer, hate, favorite"),
    "profile": _words("我是、工作、住在、负责 = I am, work, live, responsible for"),
    "constraints": _words("必须、不能、过敏、不超过 = must, cannot, allergic, at most"),
    "schedule": _words("截止、会议、预约、提醒 = deadline, meeting, appointment, remind"),
}


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of a lexicon."""

    canonical: str
    aliases: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Query:
    """How to search for one intent: the tool to begin with, and the queries to ask as well."""

    first: str
    rewrites: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Draft:
    """All that goes into a skill."""

    name: str
    scenario: Scenario
    answers: Answers
    lexicon: tuple[Entry, ...]
    queries: Mapping[TemplateIntent, Query]


def default_draft(name: str, scenario: Scenario, answers: Answers) -> Draft:
    """Make a draft without a model, by the defaults."""
    first = dict(zip(TemplateIntent, (*_FIRST[answers.emphasis], MESSAGES_LIST), strict=True))
    return Draft(
        name,
        scenario,
        answers,
        entries(one.ordered(scenario.language) for one in _GENERAL),
        {intent: Query(tool, (_rewrite(intent, tool, scenario.language),)) for intent, tool in first.items()},
    )


def entries(groups: Iterable[Sequence[str]]) -> tuple[Entry, ...]:
    """Make entries of groups of words that mean the same. Each word stands in one entry, the first that has it.

    The first word of a group is canonical, unless it is the name of a limit of the host, such as `deadline`: a line
    that begins with one would look as if it set it.
    """
    used, made = set[str](), list[Entry]()
    for group in groups:
        fresh = sorted((word for word in dict.fromkeys(group) if word.casefold() not in used), key=is_host_setting)
        if len(fresh) > 1:
            used.update(word.casefold() for word in fresh)
            made.append(Entry(fresh[0], tuple(fresh[1:])))
    return tuple(made)


def _rewrite(intent: TemplateIntent, tool: str, language: Language) -> str:
    """Write the question, or its words where words are looked for, and what answers to it have in them."""
    told = _TOLD[intent.value]
    said = told.chinese if language is Language.CHINESE else told.english
    return " ".join(("{question}" if tool == SEMANTIC_SEARCH else "{words}", *said))


def name_for(scenario: Scenario) -> str:
    """Derive a name: the sentence's English words, else a digest of it."""
    words = [word for word in _WORD.findall(scenario.text.casefold()) if word not in _IDLE][:_WORDS_MAX]
    digest = hashlib.blake2b(scenario.text.encode(), digest_size=4).hexdigest()
    return "-".join(("recall", *(dict.fromkeys(words) or [digest])))[:_CHARS_MAX].rstrip("-")
