"""Apply a skill to the rule-based planner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from nomemory.recall.model.question import Question, Role
from nomemory.recall.model.search_scope import SearchScope
from nomemory.recall.skills.folder import SKILL_FILE
from nomemory.recall.skills.steering.defaults import ANY_LENGTH, Defaults, read_defaults
from nomemory.recall.skills.steering.lexicon import Lexicon, read_lexicon
from nomemory.recall.skills.steering.outline import InvalidEntry, Section, SectionKind, sections
from nomemory.recall.skills.steering.template import Template, read_templates
from nomemory.text.analysis import analyze_text
from nomemory.text.question_analysis import QuestionAnalysis
from nomemory.text.question_words import remove_question_words
from nomemory.text.time_expressions import range_of_last_days
from nomemory.text.time_range import ANY_TIME, TimeRange

LEXICON_FILE: Final = "references/lexicon.md"
_MAX_NOTES: Final = 8
_MAX_INVALID: Final = 200


@dataclass(frozen=True, slots=True)
class Steering:
    """A skill's defaults, lexicon and query templates. An empty instance has no effect.

    `invalid_entries` are the first invalid entries by file and line. `invalid_count` counts all of them.
    """

    defaults: Defaults = field(default_factory=Defaults)
    lexicon: Lexicon = field(default_factory=Lexicon)
    templates: tuple[Template, ...] = ()
    invalid_entries: tuple[InvalidEntry, ...] = ()
    invalid_count: int = 0

    @property
    def notes(self) -> tuple[str, ...]:
        """Return notes about invalid entries, up to the limit of a response."""
        shown = tuple(map(str, self.invalid_entries[:_MAX_NOTES]))
        more = self.invalid_count - len(shown)
        return (*shown, f"{more} more entries of the skill are invalid") if more else shown

    def expansions(self, sentence: str) -> tuple[str, ...]:
        """Return the synonyms for a sentence, without query operators."""
        return self.lexicon.expand(sentence)

    def template(self, reading: QuestionAnalysis) -> Template | None:
        """Return the template with the most words of the question or their synonyms; None without a match."""
        words = (remove_question_words(reading.question_text), *self.expansions(reading.question_text))
        question_terms = frozenset(analyze_text(" ".join(words)).terms)
        best = max(self.templates, key=lambda template: len(template.terms & question_terms), default=None)
        return best if best and best.terms & question_terms else None

    def first_scope(self, question: Question) -> SearchScope:
        """Return the initial scope from the caller, else the question, else the defaults."""
        window = question.time_range
        signal = question.analysis.time_signal
        if window is None:
            window = signal.window if signal else self.window(question.now)
        return SearchScope(window or ANY_TIME, self.role(question))

    def window(self, now: datetime) -> TimeRange | None:
        """Return the default time range before `now`, or None."""
        length = self.defaults.window
        if length is None or length == ANY_LENGTH:
            return ANY_TIME if length else None
        longer = range_of_last_days(length.days + 1, now)
        since = longer.since and now - min(length, now - longer.since)
        return TimeRange(since, now)

    def role(self, question: Question) -> Role:
        """Return the role from the caller, else the skill.

        Questions about the assistant's messages ignore the skill's default.
        """
        default = None if question.analysis.asks_about_assistant else self.defaults.role
        return question.role or default or Role.ANY

    def page_size(self, usual: int) -> int:
        """Return the page size of the skill, or `usual`. The host's budget limits it."""
        return self.defaults.top_k or usual


def read_steering(texts: Mapping[str, str]) -> Steering:
    """Parse a skill leniently. Unknown text is prose, and invalid entries are reported. The function never raises.

    The time is linear in the length of the texts.

    Args:
        texts: complete files by path within the skill, including frontmatter. `SKILL.md` may have all sections;
            `references/lexicon.md` is a lexicon regardless of its headings. Other files are ignored.
    """
    skill_sections = sections(texts.get(SKILL_FILE, ""), SKILL_FILE)

    def of_kind(kind: SectionKind) -> list[Section]:
        return [section for section in skill_sections if section.kind is kind]

    lexicons = [*of_kind(SectionKind.LEXICON), *sections(texts.get(LEXICON_FILE, ""), LEXICON_FILE)]
    defaults, wrong_defaults = read_defaults(
        entry for section in of_kind(SectionKind.DEFAULTS) for entry in section.entries
    )
    lexicon, wrong_lexicon = read_lexicon(entry for section in lexicons for entry in section.entries)
    templates, wrong_templates = read_templates(
        part for section in of_kind(SectionKind.QUERY_TEMPLATES) for part in section.parts
    )
    unreadable = sorted(
        (*wrong_defaults, *wrong_templates, *wrong_lexicon),
        key=lambda default: (default.file != SKILL_FILE, default.line),
    )
    return Steering(defaults, lexicon, tuple(templates), tuple(unreadable[:_MAX_INVALID]), len(unreadable))
