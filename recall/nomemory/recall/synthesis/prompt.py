"""The prompt of a composing model. It names no user, and all messages stand inside a fence."""

from __future__ import annotations

from collections.abc import Sequence

from nomemory.recall.grounding.contradictions import contradictions
from nomemory.recall.grounding.supersession import superseded
from nomemory.recall.llm.fence import FENCE_RULE, fence, shown_in_order
from nomemory.recall.llm.prompt import Prompt, PromptBounds, question_text, skill_text, strict_object
from nomemory.recall.model.evidence import Findings
from nomemory.recall.model.question import Question
from nomemory.recall.model.trace import JsonValue
from nomemory.recall.skills.loader import Skill
from nomemory.recall.synthesis.llm_answer import CITATIONS_MAX, CONFLICTS_MAX, SECTIONS, STATEMENTS_MAX, VERDICTS

_SYNTHESIS_ROLE = (
    "You compose a memory view from evidence: messages of one person's history that were found for a question.\n"
    'Answer with exactly one JSON object and nothing else: {"verdict": "…", "preferences": [], "profile": [], '
    '"constraints": [], "conflicts": []}. '
    'Each entry of the three sections is {"text": "…", "citations": [{"message_id": "…", "quote": "…"}]}.\n'
    "preferences: what the person likes, dislikes or wants things to be like. profile: facts, plans, events, projects. "
    "constraints: what must or must not be, such as allergies, deadlines, rules.\n"
    "Write only what the evidence supports and the question asks for, one short statement each, in the language of the "
    "question. Every quote is copied exactly from the content of the message it names, as short as proves the "
    "statement. What holds now comes from the latest message on a matter; keep an earlier one as its own statement "
    "where it tells what changed. Nobody's words become the person's own: what somebody else said, or what was pasted, "
    "forwarded, quoted or told as a story, is to be called that.\n"
    "verdict: supported if the statements answer the question; conflicting if the evidence says both; insufficient if "
    "nothing in it answers the question: then state what comes nearest.\n"
    'conflicts: pairs of your statements that cannot both hold at one time, each {"earlier": {"message_id": "…", '
    '"quote": "…"}, "later": {"message_id": "…", "quote": "…"}} with citations of those statements. Do not judge '
    "between them: write both sides, each with its own evidence. A change of mind over time is no conflict."
)
_ORDER = (
    "The evidence, oldest first; rank 1 is the likeliest to answer. `may_be_superseded_by` and `may_contradict` name "
    "other messages: guesses from nearness and form, for you to judge."
)


def synthesis_prompt(
    question: Question, skill: Skill, findings: Findings, notes: Sequence[str], bounds: PromptBounds
) -> Prompt:
    """Ask for a memory view of the evidence. `notes` say what was wrong with answers before this one."""
    system = "\n\n".join((_SYNTHESIS_ROLE, FENCE_RULE, skill_text(skill, bounds)))
    user = "\n\n".join(
        (
            question_text(question),
            f"{_ORDER}\n{fence(_evidence(question, findings, bounds))}",
            *(f"An answer of yours was not used: {note}" for note in notes),
            "Give the JSON object.",
        )
    )
    return Prompt(system, user, "memory_view", _view_schema([one.message.message_id for one in findings.evidence]))


def _evidence(question: Question, findings: Findings, bounds: PromptBounds) -> list[dict[str, JsonValue]]:
    """Return the messages in the order of time, each with what the relations say of it."""
    newer = superseded(findings.relations, {one.message.message_id for one in findings.evidence})
    against: dict[str, list[JsonValue]] = {}
    for earlier, later in contradictions(findings.evidence, findings.relations, question):
        against.setdefault(earlier.message_id, []).append(later.message_id)
        against.setdefault(later.message_id, []).append(earlier.message_id)
    return [
        item | _hints(newer.get(str(item["id"]), ""), against.get(str(item["id"]), []))
        for item in shown_in_order(findings.evidence, bounds.evidence)
    ]


def _hints(newer: str, against: list[JsonValue]) -> dict[str, JsonValue]:
    hints: dict[str, JsonValue] = {}
    if newer:
        hints["may_be_superseded_by"] = newer
    if against:
        hints["may_contradict"] = against
    return hints


def _view_schema(message_ids: Sequence[str]) -> dict[str, object]:
    """Return the schema of an answer; a model may leave out the verdict and the conflicts."""
    citation = strict_object({"message_id": {"enum": list(message_ids)}, "quote": {"type": "string"}})
    citations = {"type": "array", "items": citation, "minItems": 1, "maxItems": CITATIONS_MAX}
    entry = strict_object({"text": {"type": "string"}, "citations": citations})
    sections = {name: {"type": "array", "items": entry, "maxItems": STATEMENTS_MAX} for name in SECTIONS}
    pairs = {"type": "array", "items": strict_object({"earlier": citation, "later": citation})}
    judged = {"verdict": {"enum": list(VERDICTS)}, "conflicts": pairs | {"maxItems": CONFLICTS_MAX}}
    whole = strict_object({"verdict": judged["verdict"], **sections, "conflicts": judged["conflicts"]})
    return whole | {"required": list(sections)}
