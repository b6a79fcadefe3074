"""The prompt of a composing model. It names no user, and all messages stand inside a fence."""

from __future__ import annotations

from collections.abc import Sequence

from nomemory.recall.llm.fence import FENCE_RULE, fence, shown
from nomemory.recall.llm.prompt import Prompt, PromptBounds, question_text, skill_text, strict_object
from nomemory.recall.model.evidence import Evidence
from nomemory.recall.model.question import Question
from nomemory.recall.skills.skill import Skill
from nomemory.recall.synthesis.llm_answer import CITATIONS_MAX, SECTIONS, STATEMENTS_MAX

_SYNTHESIS_ROLE = (
    "You compose a memory view from evidence: messages of one person's history that were found for a question.\n"
    'Answer with exactly one JSON object and nothing else: {"preferences": [], "profile": [], "constraints": []}. '
    'Each entry is {"text": "…", "citations": [{"message_id": "…", "quote": "…"}]}.\n'
    "preferences: what the person likes, dislikes or wants things to be like. profile: facts, plans, events, projects. "
    "constraints: what must or must not be, such as allergies, deadlines, rules.\n"
    "Write only what the evidence supports and the question asks for, one short statement each, in the language of the "
    "question. Every quote is copied exactly from the content of the message it names, as short as proves the "
    "statement. Leave an array empty where the evidence does not suffice. Where messages contradict each other do not "
    "judge: write both, each with its own evidence."
)


def synthesis_prompt(
    question: Question, skill: Skill, evidence: Sequence[Evidence], notes: Sequence[str], bounds: PromptBounds
) -> Prompt:
    """Ask for a memory view of the evidence. `notes` say what was wrong with answers before this one."""
    system = "\n\n".join((_SYNTHESIS_ROLE, FENCE_RULE, skill_text(skill, bounds)))
    user = "\n\n".join(
        (
            question_text(question),
            f"The evidence, best first:\n{fence(shown(one.message, bounds.evidence) for one in evidence)}",
            *(f"An answer of yours was not used: {note}" for note in notes),
            "Give the JSON object.",
        )
    )
    return Prompt(system, user, "memory_view", _view_schema([one.message.message_id for one in evidence]))


def _view_schema(message_ids: Sequence[str]) -> dict[str, object]:
    citation = strict_object({"message_id": {"enum": list(message_ids)}, "quote": {"type": "string"}})
    citations = {"type": "array", "items": citation, "minItems": 1, "maxItems": CITATIONS_MAX}
    entry = strict_object({"text": {"type": "string"}, "citations": citations})
    return strict_object({name: {"type": "array", "items": entry, "maxItems": STATEMENTS_MAX} for name in SECTIONS})
