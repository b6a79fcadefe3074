"""A skill's lexicon of synonyms, for expanding the terms of a question."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice, zip_longest
from typing import Final

import regex  # type: ignore[import-untyped]  # the package has no type information

from nomemory.recall.skills.steering.outline import InvalidEntry, SkillEntry, split_items
from nomemory.text.normalization import fold_text
from nomemory.text.stems import stem_word
from nomemory.text.stop_words import CONVERSATIONAL_STOP_WORDS

MAX_EXPANSIONS: Final = 16
"""Maximum number of synonyms that are returned for a text."""
MAX_ENTRIES: Final = 1_000
MAX_ALIASES: Final = 32
MAX_TERM_CHARS: Final = 40
_MAX_TEXT_CHARS: Final = 4_000
"""Maximum number of characters of a text to scan."""
_GRAMMAR: Final = re.compile(r"[\"“”„‟「」『』()\x00-\x1f\x7f]")
_NEGATION: Final = re.compile(r"(?:(?<=\s)|^)-+")
_WORD: Final = regex.compile(r"([\p{Latin}\p{Greek}\p{Cyrillic}\p{M}\p{N}]+)(?:'s(?![\p{L}\p{N}]))?")
_IN_WORD: Final = regex.compile(r"[\p{Latin}\p{Greek}\p{Cyrillic}\p{M}\p{N}]")


def remove_operators(text: str) -> str:
    """Replace operators of the query syntax (quotes, parentheses, negation, and their full-width forms) with spaces."""
    folded = unicodedata.normalize("NFKC", text.encode("utf-8", "replace").decode("utf-8"))
    return " ".join(_NEGATION.sub(" ", _GRAMMAR.sub(" ", folded)).split())


@dataclass(frozen=True, slots=True)
class Lexicon:
    """Synonyms of terms. `aliases` maps each canonical term to its aliases, without query operators."""

    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    _entries: dict[str, list[str]] = field(init=False, repr=False, compare=False, default_factory=dict)
    """Lists of canonical terms, by the normalized form of a term or alias."""

    def __post_init__(self) -> None:
        for canonical, others in self.aliases.items():
            for form in dict.fromkeys(map(_to_comparison_form, (canonical, *others))):
                if form and form not in CONVERSATIONAL_STOP_WORDS:  # "It" and "can" occur in almost every question.
                    self._entries.setdefault(form, []).append(canonical)

    def find_synonyms(self, text: str) -> tuple[str, ...]:
        """Return the synonyms of the terms in a text.

        A Chinese term may match anywhere in the text. A term in another language matches whole words, regardless of
        case and of singular or plural. If terms begin at the same position, the longest one matches. At most
        `MAX_EXPANSIONS` synonyms are returned, canonical terms first.
        """
        matches = list(self._find_terms(_to_comparison_form(text[:_MAX_TEXT_CHARS]))) if self._entries else []
        canonical = dict.fromkeys(chain.from_iterable(self._entries[form] for form in matches))
        ranks = zip_longest(*((item, *self.aliases[item]) for item in canonical))
        terms = dict.fromkeys(term for term in chain.from_iterable(ranks) if term is not None)
        return tuple(islice((term for term in terms if _to_comparison_form(term) not in matches), MAX_EXPANSIONS))

    def _find_terms(self, text: str) -> Iterator[str]:
        """Yield the terms in a normalized text. If several terms match at one position, the longest is used."""
        lengths = sorted({len(form) for form in self._entries}, reverse=True)
        start = 0
        while start < len(text):
            forms = (text[start : start + length] for length in lengths if _is_whole_word(text, start, start + length))
            form = next((form for form in forms if form in self._entries), "")
            if form:
                yield form
            start += len(form) or 1


def _to_comparison_form(text: str) -> str:
    """Fold the case of a text, stem its words, and collapse white space."""
    return " ".join(_WORD.sub(lambda match: stem_word(match[1]), fold_text(text)).split())


def _is_whole_word(text: str, start: int, end: int) -> bool:
    """Return whether both ends of a match are word boundaries."""
    return not (_is_inside_word(text, start) or _is_inside_word(text, end))


def _is_inside_word(text: str, offset: int) -> bool:
    return 0 < offset < len(text) and bool(_IN_WORD.match(text[offset - 1]) and _IN_WORD.match(text[offset]))


def read_lexicon(entries: Iterable[SkillEntry]) -> tuple[Lexicon, list[InvalidEntry]]:
    """Parse the entries of a lexicon. If a canonical term is repeated, its aliases are merged."""
    aliases: dict[str, tuple[str, ...]] = {}
    invalid: list[InvalidEntry] = []
    for entry in entries:
        canonical, entry_aliases = remove_operators(entry.key), list(map(remove_operators, split_items(entry.value)))
        terms = [item for item in entry_aliases if _is_term(item) and item != canonical]
        merged = dict.fromkeys((*aliases.get(canonical, ()), *terms))
        if not entry.value:
            problem = "a lexicon entry needs a term, a colon and at least one alias"
        elif not all(map(_is_term, (canonical, *entry_aliases))):
            problem = f"a lexicon term must have a letter or a digit, and at most {MAX_TERM_CHARS} characters"
        elif len(merged) > MAX_ALIASES:
            problem = f"a term has at most {MAX_ALIASES} aliases: further aliases are ignored"
        else:
            problem = ""
        if canonical not in aliases and len(aliases) == MAX_ENTRIES:
            problem = f"a lexicon has at most {MAX_ENTRIES} entries: further entries are ignored"
        elif merged and _is_term(canonical):
            aliases[canonical] = tuple(merged)[:MAX_ALIASES]
        if problem:
            invalid.append(entry.to_invalid_entry(problem))
    return Lexicon(aliases), invalid


def _is_term(text: str) -> bool:
    return len(text) <= MAX_TERM_CHARS and any(map(str.isalnum, text))
