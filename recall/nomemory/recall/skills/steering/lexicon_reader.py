"""Reads a lexicon: `- canonical: alias, alias`, or a table of two columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from nomemory.recall.skills.steering.entry import Entry, listed
from nomemory.recall.skills.steering.lexicon import Lexicon, LexiconEntry
from nomemory.recall.skills.steering.outline import Section
from nomemory.recall.skills.steering.search_text import search_text
from nomemory.recall.skills.steering.unreadable import Unreadable

ENTRIES_MAX: Final = 1_000
TERMS_MAX: Final = 5_000
ALIASES_MAX: Final = 32
TERM_CHARS_MAX: Final = 40


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
