"""A draft of a skill."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from nomemory.recall.authoring.scaffold.domain import GENERAL, GENERAL_TOLD, Words, domains_of
from nomemory.recall.authoring.scaffold.domain_terms import Term
from nomemory.recall.authoring.scaffold.interview import Answers, Emphasis
from nomemory.recall.authoring.scaffold.scenario import Language, Scenario
from nomemory.recall.skills.host_settings import is_host_setting
from nomemory.recall.skills.steering.template import TemplateIntent
from nomemory.recall.tools.definitions import LEXICAL_SEARCH, MESSAGES_LIST, SEMANTIC_SEARCH
from nomemory.recall.tools.identity_guard import names_a_user

TOP_K: Final = 20
_TOLD_MAX: Final = 8
"""Words that a rewrite adds to a question."""

_FIRST: Final = MappingProxyType(
    {
        Emphasis.BALANCED: (SEMANTIC_SEARCH, SEMANTIC_SEARCH, LEXICAL_SEARCH),
        Emphasis.WORDS: (LEXICAL_SEARCH, LEXICAL_SEARCH, LEXICAL_SEARCH),
        Emphasis.MEANING: (SEMANTIC_SEARCH, SEMANTIC_SEARCH, SEMANTIC_SEARCH),
    }
)
"""Preferences, profile, constraints; a schedule is listed."""


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
    """All that goes into a skill.

    `lexicon` is of the business, `own` of the user's messages, `candidates` are terms of theirs without an alias yet.
    """

    name: str
    scenario: Scenario
    answers: Answers
    lexicon: tuple[Entry, ...]
    queries: Mapping[TemplateIntent, Query]
    own: tuple[Entry, ...] = ()
    candidates: tuple[str, ...] = ()


def default_draft(name: str, scenario: Scenario, answers: Answers, terms: Iterable[Term] = ()) -> Draft:
    """Make a draft without a model: the zero-config defaults, the words of the business, the user's own terms."""
    domains = domains_of(scenario.text)
    words = [one for domain in domains for one in domain.lexicon] or list(GENERAL)
    told = [domain.told for domain in domains]
    first = dict(zip(TemplateIntent, (*_FIRST[answers.emphasis], MESSAGES_LIST), strict=True))
    terms = tuple(term for term in terms if not names_a_user(term.text))
    return Draft(
        name=name,
        scenario=scenario,
        answers=answers,
        lexicon=entries(one.ordered(scenario.language) for one in words),
        queries={
            intent: Query(tool, (_rewrite(intent, tool, told, scenario.language),)) for intent, tool in first.items()
        },
        own=tuple(Entry(term.text, term.longer) for term in terms if term.longer),
        candidates=tuple(term.text for term in terms if not term.longer),
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


def _rewrite(intent: TemplateIntent, tool: str, told: Sequence[Mapping[str, Words]], language: Language) -> str:
    """Write the question, or its words where words are looked for, and what answers to it have in them."""
    known = [words[intent.value] for words in told if intent.value in words] or [GENERAL_TOLD[intent.value]]
    said = dict.fromkeys(word for words in known for word in _in(words, language))
    return " ".join(("{question}" if tool == SEMANTIC_SEARCH else "{words}", *list(said)[:_TOLD_MAX]))


def _in(words: Words, language: Language) -> tuple[str, ...]:
    return words.chinese if language is Language.CHINESE else words.english
