"""Verify citations: remove quotes that do not occur in a retrieved message."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice

import regex  # type: ignore[import-untyped]  # the package has no type information

from nomemory.recall.grounding.statement_figures import FigureChecker
from nomemory.recall.model.evidence import RetrievedMessage, RetrievedMessages
from nomemory.recall.model.memory_view import Citation, DraftCitation, DraftStatement, MemoryView, Section, Statement
from nomemory.recall.model.note import Note, NoteKind, create_note
from nomemory.text.normalization import fold_text
from nomemory.text.sentences import Clause, split_sentences
from nomemory.text.terms import extract_numbers, extract_terms

MAX_STATEMENTS = 50
"""Maximum number of statements to check, best first."""

MAX_TEXT_CHARS = 1_000
"""Maximum number of code points in a statement; longer texts are truncated."""

MAX_CITATIONS = 10
"""Maximum number of citations to check per statement."""

MAX_QUOTE_CHARS = 1_000
"""Maximum number of code points in a quote; longer exact quotes are truncated."""

MAX_NAMED_IDS = 5
"""Maximum number of message ids in a note."""

MIN_CLAUSE_SHARE = 0.75
"""Minimum share of a statement's content words that a cited clause must contain."""

_NEGATION = regex.compile(
    r"不|没|别|非(?!常)|无|\b(?:not|no|never|none|cannot|without|nor)\b|n't\b|\b(?:avoids?"
    r"|dislikes?|hates?|stopped|quit)\b|讨厌|戒"
)
_ABOUT_THE_USER = regex.compile(r"(?:该|这位)?用户|\bthe user\b|\buser\b", regex.IGNORECASE)


@dataclass(slots=True)
class _RejectedCitations:
    """Counts of rejected citations, by reason.

    Unknown message ids are counted but not kept, because a model may have invented them.
    """

    not_retrieved: int = 0
    not_found: list[str] = field(default_factory=list)
    uncited: int = 0
    quoted_instead: int = 0
    over_limit: int = 0

    def to_notes(self) -> tuple[Note, ...]:
        notes = (
            create_note(NoteKind.CITATION_NOT_RETRIEVED, count=self.not_retrieved),
            create_note(NoteKind.QUOTE_NOT_FOUND, count=len(self.not_found), ids=self._format_ids()),
            create_note(NoteKind.STATEMENT_UNCITED, count=self.uncited),
            create_note(NoteKind.QUOTED_INSTEAD, count=self.quoted_instead),
            create_note(NoteKind.STATEMENT_LIMIT, count=self.over_limit, limit=MAX_STATEMENTS),
        )
        return tuple(item for item in notes if item.count)

    def _format_ids(self) -> str:
        ids = list(dict.fromkeys(self.not_found))
        return ", ".join(ids[:MAX_NAMED_IDS]) + ("" if len(ids) <= MAX_NAMED_IDS else ", …")


@dataclass(frozen=True, slots=True)
class _StatementTerms:
    """The words, figures and negation of a statement, with which a cited clause must agree."""

    words: frozenset[str]
    figures: frozenset[str]
    is_negated: bool


def verify_statements(
    drafts: Sequence[DraftStatement], retrieval: RetrievedMessages, figures: FigureChecker | None = None
) -> tuple[MemoryView, tuple[Note, ...]]:
    """Return the statements that have a verified quote, and notes about removed citations.

    The notes contain counts and message ids, but no message content.

    Args:
        drafts: the unverified statements, best first.
        retrieval: the messages that may be cited.
        figures: verifies the figures and names of statements of a chat model; None if all statements are verbatim.
    """
    rejected = _RejectedCitations(over_limit=max(0, len(drafts) - MAX_STATEMENTS))
    verified: dict[str, tuple[Section, dict[Citation, None]]] = {}
    for draft in drafts[:MAX_STATEMENTS]:
        text = _sanitize_text(draft.text)
        citations = _verify_citations(draft, text, retrieval, rejected)
        if text and citations and figures is not None:
            drafted_text, text = text, _sanitize_text(figures.select_supported_text(draft, text, citations))
            rejected.quoted_instead += text != drafted_text
        if text and citations:
            verified.setdefault(text, (draft.section, {}))[1].update(dict.fromkeys(citations))
        else:
            rejected.uncited += 1
    return _build_view(verified), rejected.to_notes()


def _build_view(verified: dict[str, tuple[Section, dict[Citation, None]]]) -> MemoryView:
    by_section: dict[Section, list[Statement]] = {section: [] for section in Section}
    for text, (section, citations) in verified.items():
        by_section[section].append(Statement(text, tuple(islice(citations, MAX_CITATIONS))))
    return MemoryView(
        preferences=tuple(by_section[Section.PREFERENCES]),
        profile=tuple(by_section[Section.PROFILE]),
        constraints=tuple(by_section[Section.CONSTRAINTS]),
    )


def _sanitize_text(text: str) -> str:
    """Strip and truncate a statement's text, and replace lone surrogates, which cannot be encoded."""
    return text.strip()[:MAX_TEXT_CHARS].encode("utf-8", "replace").decode("utf-8").strip()


def _verify_citations(
    draft: DraftStatement, text: str, retrieval: RetrievedMessages, rejected: _RejectedCitations
) -> list[Citation]:
    if not draft.citations:
        clause = _cite_best_clause(text, retrieval)
        return [clause] if clause else []
    checked = (_verify_citation(citation, text, retrieval, rejected) for citation in draft.citations[:MAX_CITATIONS])
    return [citation for citation in checked if citation]


def _verify_citation(
    draft: DraftCitation, text: str, retrieval: RetrievedMessages, rejected: _RejectedCitations
) -> Citation | None:
    message = retrieval.get_message(draft.message_id)
    if message is None:
        rejected.not_retrieved += 1
        return None
    citation = _cite_quote(message, draft.quote) if draft.quote.strip() else _cite_best_clause(text, [message])
    if citation is None:
        rejected.not_found.append(message.message_id)
    return citation


def _cite_quote(message: RetrievedMessage, quote: str) -> Citation | None:
    """Return a citation of the first occurrence of a quote in a message.

    Return None if the message does not contain the quote, or if the quote has no content words and is not the complete
    message.
    """
    start = message.content.find(quote)
    if start < 0 or not (quote.strip() == message.content.strip() or extract_terms(quote)):
        return None
    return _build_citation(message, start, start + len(quote))


def _build_citation(message: RetrievedMessage, start: int, end: int) -> Citation:
    quote = message.content[start : min(end, start + MAX_QUOTE_CHARS)]
    start_offset = message.content.find(quote)
    return Citation(message.message_id, quote, start_offset, start_offset + len(quote), message.ts)


def _cite_best_clause(text: str, messages: Iterable[RetrievedMessage]) -> Citation | None:
    """Cite the clause that has the largest share of the statement's words; return None if the share is too small."""
    claim = _StatementTerms(extract_terms(_ABOUT_THE_USER.sub("", text)), extract_numbers(text), _is_negated(text))
    best: Citation | None = None
    best_share = MIN_CLAUSE_SHARE
    for message in messages:
        if not claim.words or not claim.figures <= extract_numbers(message.content):
            continue
        for clause in _split_clauses(message.content):
            share = _compute_word_share(claim, clause)
            if share > best_share or (best is None and share >= best_share):
                best, best_share = _build_citation(message, clause.start, clause.end), share
    return best


def _compute_word_share(claim: _StatementTerms, clause: Clause) -> float:
    """Return the share of a statement's words that a clause contains.

    The share is 0 if the clause lacks a figure of the statement, or if the clause and the statement differ in negation.
    """
    if not claim.figures <= extract_numbers(clause.text) or claim.is_negated != _is_negated(clause.text):
        return 0.0
    return len(claim.words & extract_terms(clause.text)) / len(claim.words)


def _split_clauses(content: str) -> Iterable[Clause]:
    """Return the clauses and sentences of a message."""
    for sentence in split_sentences(content):
        yield from sentence.clauses
        if len(sentence.clauses) > 1:
            yield Clause(content[sentence.start : sentence.end], sentence.start, sentence.end, sentence.masked_text)


def _is_negated(text: str) -> bool:
    return bool(_NEGATION.search(fold_text(text)))
