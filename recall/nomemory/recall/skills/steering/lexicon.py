"""A skill's lexicon: terms that mean the same. Those of a question are also searched for."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice, zip_longest
from typing import Final

import regex  # type: ignore[import-untyped]  # it ships without types

from nomemory.recall.skills.steering.outline import Entry, Section, Unreadable, listed
from nomemory.text.normalisation import plain
from nomemory.text.stop_words import QUESTION_STOP_WORDS
from nomemory.text.terms import stem

_GRAMMAR: Final = re.compile(r"[\"“”„‟「」『』()\x00-\x1f\x7f]")
_NEGATION: Final = re.compile(r"(?:(?<=\s)|^)-+")
EXPANSIONS_MAX: Final = 16
"""Terms that one sentence may bring."""
_TEXT_CHARS_MAX: Final = 4_000
"""Of a sentence, what is looked through."""
_WORD: Final = regex.compile(r"([\p{Latin}\p{Greek}\p{Cyrillic}\p{M}\p{N}]+)(?:'s(?![\p{L}\p{N}]))?")
_IN_WORD: Final = regex.compile(r"[\p{Latin}\p{Greek}\p{Cyrillic}\p{M}\p{N}]")
ENTRIES_MAX: Final = 1_000
TERMS_MAX: Final = 5_000
ALIASES_MAX: Final = 32
TERM_CHARS_MAX: Final = 40


def search_text(text: str) -> str:
    """Turn what the query grammar reads as quotes, parentheses or a negation into spaces, full-width forms included."""
    folded = unicodedata.normalize("NFKC", text.encode("utf-8", "replace").decode("utf-8"))
    return " ".join(_NEGATION.sub(" ", _GRAMMAR.sub(" ", folded)).split())


@dataclass(frozen=True, slots=True)
class LexiconEntry:
    """A term and others that mean the same, as they are searched for; where it stands in the skill."""

    canonical: str
    aliases: tuple[str, ...]
    file: str
    line: int

    @property
    def terms(self) -> tuple[str, ...]:
        """Return the canonical term, then its aliases."""
        return (self.canonical, *self.aliases)


class _Index:
    """Finds terms in a text: the longest at each place, in time linear in the text."""

    def __init__(self, entries: Iterable[LexiconEntry]) -> None:
        self.forms: list[tuple[str, ...]] = []
        self._places: dict[str, list[int]] = {}
        for place, entry in enumerate(entries):
            self.forms.append(tuple(map(compared, entry.terms)))
            for form in dict.fromkeys(self.forms[-1]):
                self._places.setdefault(form, []).append(place)
        self._lengths = _lengths(form for form in self._places if not _says_nothing(form))

    def matches(self, text: str) -> Iterator[tuple[str, list[int]]]:
        """Return the terms in a compared text, each with the entries that have it."""
        start = 0
        while start < len(text):
            form = self._longest(text, start)
            if form:
                yield form, self._places[form]
            start += len(form) or 1

    def _longest(self, text: str, start: int) -> str:
        for length in self._lengths.get(text[start], ()):
            form = text[start : start + length]
            if form in self._places and _is_whole(text, start, start + length):
                return form
        return ""


@dataclass(frozen=True, slots=True)
class Lexicon:
    """The entries of a lexicon, each canonical term once."""

    entries: tuple[LexiconEntry, ...] = ()
    _index: _Index = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_index", _Index(self.entries))

    def expand(self, text: str) -> tuple[str, ...]:
        """Return the synonyms of the terms in a text, to search for as well.

        A Chinese term is found wherever it stands, a word of an alphabet as a whole word in any case and number. A
        longer term hides those within it. Canonical terms come first; there are at most `EXPANSIONS_MAX`.
        """
        if not self.entries:
            return ()
        found = dict(self._index.matches(compared(text[:_TEXT_CHARS_MAX])))
        places = dict.fromkeys(chain.from_iterable(found.values()))
        ranks = zip_longest(*(self._pairs(place) for place in places))
        others = (term for term, form in filter(None, chain.from_iterable(ranks)) if form not in found)
        return tuple(islice(dict.fromkeys(others), EXPANSIONS_MAX))

    def _pairs(self, place: int) -> Iterator[tuple[str, str]]:
        return zip(self.entries[place].terms, self._index.forms[place], strict=True)


def compared(text: str) -> str:
    """Return a text in the form in which terms are found: plain, stemmed, single spaces."""
    return " ".join(_WORD.sub(lambda match: stem(match[1]), plain(text)).split())


def _lengths(forms: Iterable[str]) -> Mapping[str, tuple[int, ...]]:
    """Return the lengths of the terms that begin with a character, longest first."""
    lengths: dict[str, set[int]] = {}
    for form in forms:
        lengths.setdefault(form[0], set()).add(len(form))
    return {first: tuple(sorted(known, reverse=True)) for first, known in lengths.items()}


def _is_whole(text: str, start: int, end: int) -> bool:
    """Return whether no word goes on across either end."""
    return not (_joins(text, start) or _joins(text, end))


def _joins(text: str, place: int) -> bool:
    return 0 < place < len(text) and bool(_IN_WORD.match(text[place - 1]) and _IN_WORD.match(text[place]))


def _says_nothing(form: str) -> bool:
    """Return whether a term stands in nearly every question: “it”, “can”."""
    return not form or form in QUESTION_STOP_WORDS


class LexiconReader:
    """Reads the sections of a lexicon, over as many files as it has. What is beyond its bounds is reported."""

    def __init__(self) -> None:
        self.unreadable: list[Unreadable] = []
        self._aliases: dict[str, dict[str, None]] = {}
        self._stands: dict[str, tuple[str, int]] = {}
        self._terms = 0

    def read(self, file: str, section: Section) -> None:
        """Read the entries of a section. One canonical term may stand in several; their aliases add up."""
        for part in section.parts:
            for entry in part.entries:
                for why in self._take(file, entry):
                    self.unreadable.append(Unreadable(file, entry.line, why))

    def lexicon(self) -> Lexicon:
        """Return everything read so far."""
        return Lexicon(
            tuple(
                LexiconEntry(canonical, tuple(aliases), *self._stands[canonical])
                for canonical, aliases in self._aliases.items()
            )
        )

    def _take(self, file: str, entry: Entry) -> Iterator[str]:
        canonical = search_text(entry.key)
        if not entry.value:
            yield "an entry of the lexicon is a term, a colon and at least one alias"
        elif not _is_term(canonical):
            yield f"a term of the lexicon has a letter or a digit and at most {TERM_CHARS_MAX} characters"
        elif canonical not in self._aliases and len(self._aliases) == ENTRIES_MAX:
            yield f"a lexicon has at most {ENTRIES_MAX} entries"
        else:
            yield from self._take_aliases(canonical, [search_text(alias) for alias in listed(entry.value)], file, entry)

    def _take_aliases(self, canonical: str, given: list[str], file: str, entry: Entry) -> Iterator[str]:
        known = self._aliases.get(canonical, {})
        wanted = [alias for alias in dict.fromkeys(given) if alias != canonical and alias not in known]
        terms = [alias for alias in wanted if _is_term(alias)]
        if len(terms) < len(wanted):
            yield f"an alias has a letter or a digit and at most {TERM_CHARS_MAX} characters: some are left out"
        room = max(0, min(ALIASES_MAX - len(known), TERMS_MAX - self._terms - (canonical not in self._aliases)))
        if len(terms) > room:
            yield f"at most {ALIASES_MAX} aliases of a term and {TERMS_MAX} terms in all: some are left out"
        kept = terms[:room]
        if not kept:
            return
        self._terms += len(kept) + (canonical not in self._aliases)
        self._stands.setdefault(canonical, (file, entry.line))
        self._aliases.setdefault(canonical, {}).update(dict.fromkeys(kept))


def _is_term(text: str) -> bool:
    return len(text) <= TERM_CHARS_MAX and any(map(str.isalnum, text))
