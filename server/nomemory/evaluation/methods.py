"""The ways to ask a server: each takes a question, and gives what it found, best first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from nomemory.client.errors import NoMemoryError
from nomemory.client.sync import Client
from nomemory.evaluation.answer import Found
from nomemory.evaluation.metrics import DEPTH
from nomemory.evaluation.question import Question
from nomemory.evaluation.recorded_endpoint import RecordedEndpoint
from nomemory.evaluation.view import view_of
from nomemory.v1 import recall_service_pb2 as pb

TEXT_MAX: Final = 2_000
"""Longest question that the contract takes."""

_TOO_COMPLEX: Final = "ERROR_REASON_QUERY_TOO_COMPLEX"
_IDS_ONLY: Final = ("message_id",)

Method = Callable[[Client, Question], Found]


def lexical(client: Client, question: Question) -> Found:
    """Search for the words of the question. One with too many of them is shortened until it is taken."""
    text = question.text[:TEXT_MAX]
    while True:
        try:
            reply = client.lexical_search(
                question.user_id, text, until=question.now, page_size=DEPTH, return_fields=_IDS_ONLY
            )
        except NoMemoryError as error:
            if error.reason != _TOO_COMPLEX or len(text) == 1:
                raise
            text = text[: len(text) * 9 // 10]
        else:
            return Found(tuple(one.message_id for one in reply.items), is_cut=len(text) < len(question.text))


def semantic(client: Client, question: Question) -> Found:
    """Search for what means the same as the question."""
    text = question.text[:TEXT_MAX]
    reply = client.semantic_search(question.user_id, text, until=question.now, top_k=DEPTH, return_fields=_IDS_ONLY)
    return Found(tuple(one.message.message_id for one in reply.items), is_cut=text != question.text)


def hybrid(client: Client, question: Question) -> Found:
    """Search for what answers the question, by words, meaning and all."""
    text = question.text[:TEXT_MAX]
    reply = client.hybrid_search(question.user_id, text, until=question.now, top_k=DEPTH, return_fields=_IDS_ONLY)
    found = tuple(one.message.message_id for one in reply.items)
    return Found(found, sufficiency=reply.sufficiency, is_cut=text != question.text)


@dataclass(frozen=True, slots=True)
class Recall:
    """Let the recall agent answer.

    Args:
        skill: the skill that it searches with; empty: the server's default.
    """

    skill: str = ""

    def __call__(self, client: Client, question: Question) -> Found:
        """Answer a question; what is found is the evidence."""
        text = question.text[:TEXT_MAX]
        reply = client.recall(text, user_id=question.user_id, now=question.now, skill=self.skill)
        limits = reply.limits
        return Found(
            tuple(one.message.message_id for one in reply.evidence),
            sufficiency=limits.sufficiency if limits.HasField("sufficiency") else None,
            verdict=pb.Verdict.Name(reply.verdict).removeprefix("VERDICT_"),
            is_cut=text != question.text,
            view=view_of(reply),
        )


@dataclass(frozen=True, slots=True)
class RecordedRecall:
    """Let the recall agent answer with a model whose answers are recorded.

    Args:
        endpoint: what the server takes for the model. Nothing else may ask it meanwhile.
    """

    endpoint: RecordedEndpoint

    def __call__(self, client: Client, question: Question) -> Found:
        """Answer a question; what is found has the prompts."""
        self.endpoint.begin()
        found = Recall()(client, question)
        return replace(found, prompts=tuple(self.endpoint.prompts), is_waiting=self.endpoint.is_waiting)


HYBRID: Final = "HybridSearch"
RECALL: Final = "Recall"
NAMES: Final = ("LexicalSearch", "SemanticSearch", HYBRID, RECALL)
"""What results call the methods, cheap ones first."""


def methods(names: Sequence[str]) -> dict[str, Method]:
    """Return the methods of these names."""
    known: tuple[Method, ...] = (lexical, semantic, hybrid, Recall())
    return {name: method for name, method in zip(NAMES, known, strict=True) if name in names}
