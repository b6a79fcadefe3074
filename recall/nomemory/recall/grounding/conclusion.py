"""From drafts to an answer: verified, newest first, with what is superseded or contradictory, and a verdict.

Decides whether the evidence answers the question: by how likely it is that the log does. It takes nothing away.

Which statement took the place of which: later, by the same speaker, near in meaning, with rare words in common.

Checks the conflicts that a chat model claims: both sides have to be statements that hold.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Final

from nomemory.recall.grounding.citations import verify
from nomemory.recall.grounding.contradictions import Pair, attribution, contradictions, is_named
from nomemory.recall.model.evidence import DEFAULT_RULE, EnoughRule, Findings, Relation, Retrieval, Sufficiency
from nomemory.recall.model.memory_view import (
    Attribution,
    Conflict,
    Draft,
    DraftCitation,
    DraftConflict,
    DraftStatement,
    MemoryView,
    Section,
    Statement,
    Synthesis,
    Verdict,
)
from nomemory.recall.model.note import Note, NoteKind, note
from nomemory.recall.model.question import Question


@dataclass(frozen=True, slots=True)
class Ruling:
    """A verdict, why, and the probability that was enough; None: it did not decide."""

    verdict: Verdict
    reason: Note
    enough: float | None = None


def own_verdict(said: Verdict | None, *, cited: bool, contradictory: bool) -> Verdict | None:
    """Return the verdict of a synthesiser as far as it fits; None: the rules are to decide.

    Args:
        said: what it says; None: nothing.
        cited: whether a statement of its own holds.
        contradictory: whether a conflict of its own holds.
    """
    if said is Verdict.INSUFFICIENT:
        return said
    if contradictory:
        return Verdict.CONFLICTING
    return said if said is Verdict.SUPPORTED and cited else None


def decide(
    sufficiency: Sufficiency | None, rule: EnoughRule, *, cited: bool, contradictory: bool, named: bool
) -> Ruling:
    """Decide.

    Args:
        sufficiency: how likely the log is to answer; None where no search says.
        rule: from when on that is enough.
        cited: whether the view has a statement of which not all was taken back.
        contradictory: whether statements contradict each other.
        named: whether speakers have names.
    """
    if not cited:
        return Ruling(Verdict.INSUFFICIENT, note(NoteKind.NOTHING_CITED))
    if contradictory:
        return Ruling(Verdict.CONFLICTING, note(NoteKind.CONTRADICTORY))
    if sufficiency is None:
        return Ruling(Verdict.SUPPORTED, note(NoteKind.NOT_ESTIMATED))
    estimate, enough = sufficiency.probability, rule.least(sufficiency, named=named)
    verdict, does = (Verdict.SUPPORTED, "") if estimate >= enough else (Verdict.INSUFFICIENT, "do not ")
    return Ruling(verdict, note(NoteKind.ESTIMATED, does=does, estimate=estimate, enough=enough), enough)


NEAR: Final = 2.25
"""Standard deviations that two messages must lie nearer to each other than what was found usually does."""


SHARED: Final = 0.25
"""Share of their words that they must have in common. With less, statements that still hold are marked, too."""


def superseded(relations: Iterable[Relation], cited: Collection[str]) -> dict[str, str]:
    """Return the id of the latest message that says anew what an earlier one says, by the earlier one's id.

    Args:
        relations: in the order of the later message.
        cited: the messages of the view; others supersede nothing.
    """
    alike = [one for one in relations if one.nearness >= NEAR and one.shared >= SHARED]
    return {one.earlier: one.later for one in alike if one.earlier in cited and one.later in cited}


Texts = tuple[str, str]
"""The earlier and the later of two statements, by their texts; no two of a view have the same."""


def surviving(claimed: Iterable[DraftConflict], view: MemoryView, retrieval: Retrieval) -> tuple[Texts, ...]:
    """Return the conflicts between two statements of the view that rest on different messages, each pair once."""
    pairs = (_checked(one, view.statements(), retrieval) for one in claimed)
    return tuple({frozenset(pair): pair for pair in pairs if pair}.values())


def _checked(claimed: DraftConflict, statements: tuple[Statement, ...], retrieval: Retrieval) -> Texts | None:
    one = _citing(claimed.one, statements, retrieval)
    other = _citing(claimed.other, statements, retrieval)
    if one is None or other is None or _sources(one) == _sources(other):
        return None
    if any(all(_takers(side, retrieval)) for side in (one, other)):
        return None
    earlier, later = sorted((one, other), key=_first_said)
    return earlier.text, later.text


def _citing(claimed: DraftCitation, statements: tuple[Statement, ...], retrieval: Retrieval) -> Statement | None:
    """Return the statement that cites a message, the same words of it if there is one; None for words never said."""
    message = retrieval.get(claimed.message_id)
    if message is None or claimed.quote not in message.content:
        return None
    citing = [
        (claimed.quote in citation.quote or citation.quote in claimed.quote, one)
        for one in statements
        for citation in one.citations
        if citation.message_id == claimed.message_id
    ]
    return max(citing, key=lambda found: found[0])[1] if citing else None


def _sources(statement: Statement) -> frozenset[str]:
    return frozenset(citation.message_id for citation in statement.citations)


def _first_said(statement: Statement) -> tuple[float, str]:
    """Return when what a statement rests on was first said, for sorting."""
    return min((citation.ts.timestamp(), citation.message_id) for citation in statement.citations)


def conclude(question: Question, draft: Draft, findings: Findings, rule: EnoughRule = DEFAULT_RULE) -> Synthesis:
    """Verify a draft, mark what was superseded and by whom it was said, and decide the verdict.

    A verdict and conflicts of the draft's own stand where they fit what could be verified; else the rules decide. The
    view keeps whatever could be cited, whatever the verdict.
    """
    view, notes = verify(draft.statements, findings.retrieval)
    claimed = surviving(draft.conflicts, view, findings.retrieval)
    verdict = own_verdict(draft.verdict, cited=_holds(view, findings.retrieval), contradictory=bool(claimed))
    if verdict is not None:
        return _as_drafted(view, verdict, claimed, findings, notes)
    misfit = () if draft.verdict is None else (note(NoteKind.VERDICT_MISFIT, verdict=draft.verdict.value),)
    return _by_rules(question, draft, findings, rule, misfit)


def _as_drafted(
    view: MemoryView, verdict: Verdict, claimed: Sequence[Texts], findings: Findings, notes: tuple[Note, ...]
) -> Synthesis:
    sides = {text for pair in claimed for text in pair}
    against = {citation.message_id for one in view.statements() if one.text in sides for citation in one.citations}
    view = _marked(view, findings, against)
    stated = {one.text: one for one in view.statements()}
    conflicts = tuple(Conflict(stated[earlier], stated[later]) for earlier, later in claimed)
    return Synthesis(view, verdict, conflicts, (*notes, note(NoteKind.VERDICT_OF_MODEL)))


def _by_rules(
    question: Question, draft: Draft, findings: Findings, rule: EnoughRule, misfit: tuple[Note, ...]
) -> Synthesis:
    """Show both sides of each contradiction that the rules find, and decide by how likely the log is to answer."""
    named = is_named(findings.retrieval)
    likely = rule.is_met(findings.sufficiency, named=named)  # else what contradicts itself is beside the point
    holding = [one for one in findings.evidence if not one.message.retracted_by]
    pairs = list(contradictions(holding, findings.relations, question)) if likely else []
    view, notes = verify([*draft.statements, *_sides(pairs, draft.statements)], findings.retrieval)
    view = _marked(view, findings, {one.message_id for pair in pairs for one in pair})
    conflicts = tuple(_conflicts(view, pairs))
    cited, contradictory = _holds(view, findings.retrieval), bool(conflicts)
    ruling = decide(findings.sufficiency, rule, cited=cited, contradictory=contradictory, named=named)
    return Synthesis(view, ruling.verdict, conflicts, (*notes, *misfit, ruling.reason), ruling.enough)


def _takers(statement: Statement, retrieval: Retrieval) -> list[str]:
    """Return what took back each message that a statement cites, by their ids; an empty text for one that holds."""
    cited = (retrieval.get(message_id) for message_id in sorted(_sources(statement)))
    return [message.retracted_by for message in cited if message]


def _holds(view: MemoryView, retrieval: Retrieval) -> bool:
    """Return whether a statement cites a message that was not taken back."""
    return not all(all(_takers(one, retrieval)) for one in view.statements())


def _sides(pairs: Iterable[Pair], drafts: Sequence[DraftStatement]) -> list[DraftStatement]:
    """Return the messages that contradict each other as drafts, in the section that the others are in."""
    section = drafts[0].section if drafts else Section.PROFILE
    cited = {citation.message_id for draft in drafts for citation in draft.citations}
    missing = {one.message_id: one for pair in pairs for one in pair if one.message_id not in cited}
    return [
        DraftStatement(section, one.content, (DraftCitation(one.message_id, one.content),)) for one in missing.values()
    ]


def _marked(view: MemoryView, findings: Findings, against: AbstractSet[str]) -> MemoryView:
    """Put the newest first, and say of each statement whose words it holds and what took its place.

    What is contradicted, by the ids in `against`, is not superseded: nobody judges between the two.
    """
    cited = {citation.message_id for one in view.statements() for citation in one.citations} - against
    newer = superseded(findings.relations, cited)

    def marked(statements: Iterable[Statement]) -> tuple[Statement, ...]:
        made = [_mark(one, newer, findings.retrieval) for one in statements]
        return tuple(sorted(made, key=_newest, reverse=True))

    return MemoryView(marked(view.preferences), marked(view.profile), marked(view.constraints))


def _mark(statement: Statement, newer: dict[str, str], retrieval: Retrieval) -> Statement:
    ids = {citation.message_id for citation in statement.citations}
    takers = _takers(statement, retrieval)
    by = {takers[-1]} if all(takers) else {newer.get(message_id, "") for message_id in ids}
    voices = {attribution(message) for message_id in ids if (message := retrieval.get(message_id))}
    return replace(
        statement,
        superseded_by=by.pop() if len(by) == 1 else "",
        attribution=voices.pop() if len(voices) == 1 else Attribution.UNSPECIFIED,
    )


def _newest(statement: Statement) -> tuple[float, bytes]:
    return max((citation.ts.timestamp(), citation.message_id.encode()) for citation in statement.citations)


def _conflicts(view: MemoryView, pairs: Iterable[Pair]) -> Iterable[Conflict]:
    """Return the contradictions as statements of the view. All of them are read off the form of words: guesses."""
    stating = {citation.message_id: one for one in reversed(view.statements()) for citation in one.citations}
    for earlier, later in pairs:
        if {earlier.message_id, later.message_id} <= stating.keys():
            yield Conflict(stating[earlier.message_id], stating[later.message_id], possible=True)
