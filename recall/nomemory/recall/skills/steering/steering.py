"""How a skill steers the rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from nomemory.recall.intent.intent import Hypothesis, Intent
from nomemory.recall.model.question import Question, Role
from nomemory.recall.model.search_scope import SearchScope
from nomemory.recall.skills.folder import SKILL_FILE
from nomemory.recall.skills.steering.defaults import Defaults, DefaultsReader
from nomemory.recall.skills.steering.lexicon import Lexicon, LexiconReader
from nomemory.recall.skills.steering.outline import SectionKind, Unreadable, sections
from nomemory.recall.skills.steering.template import INTENT_OF, Template, TemplateReader
from nomemory.text.time_expressions import ANY_TIME, TimeRange, last_days

_NOTES_MAX: Final = 8
LEXICON_FILE: Final = "references/lexicon.md"
_UNREADABLE_MAX: Final = 200
_ALIKE_MAX: Final = 20
"""Of what cannot be read for one and the same reason, so much is told."""


@dataclass(frozen=True, slots=True)
class Steering:
    """A skill's Defaults, Lexicon and Query Templates. The default one changes nothing.

    `unreadable` is what could not be read, by file and line, the first of it; `unreadable_count` counts all of it.
    """

    defaults: Defaults = field(default_factory=Defaults)
    lexicon: Lexicon = field(default_factory=Lexicon)
    templates: tuple[Template, ...] = ()
    unreadable: tuple[Unreadable, ...] = ()
    unreadable_count: int = 0

    @property
    def notes(self) -> tuple[str, ...]:
        """Return notes on what could not be read, as many as fit in a reply."""
        shown = tuple(str(one) for one in self.unreadable[:_NOTES_MAX])
        more = self.unreadable_count - len(shown)
        return (*shown, f"{more} more entries of the skill cannot be read") if more else shown

    def expansions(self, sentence: str) -> tuple[str, ...]:
        """Return the terms to search for beside a sentence's own, as text without operators."""
        return self.lexicon.expand(sentence)

    def template(self, intent: Intent) -> Template | None:
        """Return the template of the strongest hypothesis that has one."""
        wanted = (INTENT_OF.get(hypothesis) for hypothesis in intent.hypotheses)
        known = {template.intent: template for template in self.templates}
        return next((known[one] for one in wanted if one in known), None)

    def first_scope(self, question: Question, intent: Intent) -> SearchScope:
        """Return where to start: where the caller wants to, else where the question says, else the defaults."""
        window = question.time_range
        signal = question.reading.time_signal
        if window is None and signal is not None:
            window = signal.window
        elif window is None:
            window = self.window(question.now)
        return SearchScope(window or ANY_TIME, question.role or self._role(intent) or Role.ANY)

    def window(self, now: datetime) -> TimeRange | None:
        """Return the default window before a time, or None."""
        length = self.defaults.window
        if not isinstance(length, timedelta):
            return ANY_TIME if length else None
        longer = last_days(length.days + 1, now)
        since = longer.since and now - min(length, now - longer.since)
        return TimeRange(since, now)

    def preferred_role(self, question: Question, intent: Intent) -> Role:
        """Return whose words rank higher."""
        return question.role or self._role(intent) or intent.role

    def page(self, usual: int) -> int:
        """Return how many messages to ask for; `usual` if the skill does not say. The host's budget bounds it."""
        return self.defaults.top_k or usual

    def _role(self, intent: Intent) -> Role | None:
        """Return the default role, unless the question asks for what somebody else promised."""
        return None if Hypothesis.PROMISE in intent.hypotheses else self.defaults.role


def read_steering(texts: Mapping[str, str]) -> Steering:
    """Read a skill leniently: other text is prose, and entries that cannot be read are reported. Never raises.

    Takes time linear in the length of the texts.

    Args:
        texts: whole files by their paths within the skill, frontmatter included. `SKILL.md` has all sections;
            `references/lexicon.md` is a lexicon from its first line on, whatever its headings say. No other file
            steers.
    """
    defaults, lexicon, templates = DefaultsReader(), LexiconReader(), TemplateReader()
    readers: dict[SectionKind | None, DefaultsReader | LexiconReader | TemplateReader] = {
        SectionKind.DEFAULTS: defaults,
        SectionKind.LEXICON: lexicon,
        SectionKind.QUERY_TEMPLATES: templates,
    }
    for section in sections(texts.get(SKILL_FILE, "")):
        if section.kind in readers:
            readers[section.kind].read(SKILL_FILE, section)
    for section in sections(texts.get(LEXICON_FILE, "")):
        lexicon.read(LEXICON_FILE, section)
    unreadable = sorted(
        (*defaults.unreadable, *templates.unreadable, *lexicon.unreadable),
        key=lambda one: (one.file != SKILL_FILE, one.line),
    )
    return Steering(
        defaults=defaults.defaults(),
        lexicon=lexicon.lexicon(),
        templates=templates.templates(),
        unreadable=_told(unreadable),
        unreadable_count=len(unreadable),
    )


def _told(unreadable: Iterable[Unreadable]) -> tuple[Unreadable, ...]:
    """Return the first unreadable entries, with a limit for each reason."""
    alike = Counter[str]()
    told: list[Unreadable] = []
    for one in unreadable:
        alike[one.why] += 1
        if alike[one.why] <= _ALIKE_MAX and len(told) < _UNREADABLE_MAX:
            told.append(one)
    return tuple(told)
