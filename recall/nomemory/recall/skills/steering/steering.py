"""Configuration that a skill sets for the rule-based planner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from nomemory.recall.model.question import Question, Role
from nomemory.recall.model.search_scope import SearchScope
from nomemory.recall.skills.folder import SKILL_FILE
from nomemory.recall.skills.steering.defaults import UNLIMITED_LOOKBACK, SkillDefaults, read_defaults
from nomemory.recall.skills.steering.lexicon import Lexicon, read_lexicon
from nomemory.recall.skills.steering.outline import InvalidEntry, SectionKind, SkillSection, parse_sections
from nomemory.recall.skills.steering.template import QueryTemplate, read_templates
from nomemory.text.analysis import analyze_text
from nomemory.text.question_analysis import QuestionAnalysis
from nomemory.text.question_words import remove_question_words
from nomemory.text.time_expressions import build_last_days_range
from nomemory.text.time_range import ANY_TIME, TimeRange

LEXICON_FILE: Final = "references/lexicon.md"
_MAX_NOTES: Final = 8
_MAX_INVALID: Final = 200


@dataclass(frozen=True, slots=True)
class PlannerConfiguration:
    """Configuration that a skill sets for the rule-based planner: defaults, lexicon and query templates.

    `invalid_entries` are the first invalid entries of the skill, sorted by file and line. `invalid_count` is the number
    of all invalid entries.
    """

    defaults: SkillDefaults = field(default_factory=SkillDefaults)
    lexicon: Lexicon = field(default_factory=Lexicon)
    templates: tuple[QueryTemplate, ...] = ()
    invalid_entries: tuple[InvalidEntry, ...] = ()
    invalid_count: int = 0

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes about the first invalid entries, and a note with the number of further invalid entries."""
        shown = tuple(map(str, self.invalid_entries[:_MAX_NOTES]))
        omitted_count = self.invalid_count - len(shown)
        return (*shown, f"{omitted_count} more entries of the skill are invalid") if omitted_count else shown

    def find_synonyms(self, sentence: str) -> tuple[str, ...]:
        """Return synonyms of the words in a sentence, from the lexicon."""
        return self.lexicon.find_synonyms(sentence)

    def select_template(self, analysis: QuestionAnalysis) -> QueryTemplate | None:
        """Return the query template that shares the most words with the question; None if no template shares a word."""
        words = (remove_question_words(analysis.question_text), *self.find_synonyms(analysis.question_text))
        question_terms = frozenset(analyze_text(" ".join(words)).terms)
        best = max(self.templates, key=lambda template: len(template.selection_terms & question_terms), default=None)
        return best if best and best.selection_terms & question_terms else None

    def choose_initial_scope(self, question: Question) -> SearchScope:
        """Return the initial search scope.

        The caller's preference takes precedence over the question, and the question over the skill's defaults.
        """
        time_range = question.time_range
        signal = question.analysis.time_signal
        if time_range is None:
            time_range = signal.time_range if signal else self.compute_default_time_range(question.now)
        return SearchScope(time_range or ANY_TIME, self.choose_role(question))

    def compute_default_time_range(self, now: datetime) -> TimeRange | None:
        """Return the skill's default time range, which ends at `now`; None if the skill sets no time range."""
        lookback = self.defaults.lookback
        if lookback is None or lookback == UNLIMITED_LOOKBACK:
            return ANY_TIME if lookback else None
        longer_range = build_last_days_range(lookback.days + 1, now)
        since = longer_range.since and now - min(lookback, now - longer_range.since)
        return TimeRange(since, now)

    def choose_role(self, question: Question) -> Role:
        """Return the role that the caller prefers, or the skill's default role.

        The default is ignored if the question asks about the assistant's messages.
        """
        default = None if question.analysis.asks_about_assistant else self.defaults.role
        return question.role or default or Role.ANY

    def choose_page_size(self, default_size: int) -> int:
        """Return the number of messages per search that the skill sets, or `default_size`."""
        return self.defaults.top_k or default_size


def read_planner_configuration(texts: Mapping[str, str]) -> PlannerConfiguration:
    """Parse the configuration in a skill's files.

    Invalid entries are reported, and unknown text is ignored. The function raises no errors. The run time of the
    function is linear in the length of the texts.

    Args:
        texts: the texts of the skill's files, by path within the skill. `SKILL.md` may have all sections. All of
            `references/lexicon.md` is a lexicon. All other files are ignored.
    """
    skill_sections = parse_sections(texts.get(SKILL_FILE, ""), SKILL_FILE)

    def select_sections(kind: SectionKind) -> list[SkillSection]:
        return [section for section in skill_sections if section.kind is kind]

    lexicons = [*select_sections(SectionKind.LEXICON), *parse_sections(texts.get(LEXICON_FILE, ""), LEXICON_FILE)]
    defaults, invalid_defaults = read_defaults(
        entry for section in select_sections(SectionKind.DEFAULTS) for entry in section.entries
    )
    lexicon, invalid_lexicon = read_lexicon(entry for section in lexicons for entry in section.entries)
    templates, invalid_templates = read_templates(
        part for section in select_sections(SectionKind.QUERY_TEMPLATES) for part in section.parts
    )
    invalid_entries = sorted(
        (*invalid_defaults, *invalid_templates, *invalid_lexicon),
        key=lambda default: (default.file != SKILL_FILE, default.line),
    )
    return PlannerConfiguration(
        defaults, lexicon, tuple(templates), tuple(invalid_entries[:_MAX_INVALID]), len(invalid_entries)
    )
