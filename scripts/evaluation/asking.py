"""The ways to ask a server a question, best found first, and what each question cost."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import grpc

from evaluation.labelled_file import Question
from evaluation.metrics import DEPTH
from evaluation.recorded_endpoint import RecordedEndpoint
from evaluation.view import View, view_of
from nomemory.client.errors import NoMemoryError
from nomemory.client.sync import Client
from nomemory.v1 import recall_service_pb2 as pb

TEXT_MAX: Final = 2_000
"""Longest question that the contract takes."""

HYBRID: Final = "HybridSearch"
RECALL: Final = "Recall"
NAMES: Final = ("LexicalSearch", "SemanticSearch", HYBRID, RECALL)
"""What results call the methods, cheap ones first."""

_TOO_COMPLEX: Final = "ERROR_REASON_QUERY_TOO_COMPLEX"
_IDS_ONLY: Final = ("message_id",)
_NO_EMBEDDER: Final = "ERROR_REASON_EMBEDDER_DISABLED"
_UNANSWERED: Final = frozenset({"INSUFFICIENT", "PENDING"})


@dataclass(frozen=True, slots=True)
class Found:
    """What a method brought.

    Attributes:
        message_ids: best first, without repetitions.
        sufficiency: how likely it is that this answers the question, if the method says.
        verdict: what it says of the answer, in the contract's words without their prefix; empty: nothing.
        is_cut: whether the question had to be shortened to be a valid request.
        view: the memory view, if the method composes one.
        prompts: what was said to a model for it, if that is written down.
        is_by_rules: whether rules took over from the model.
        is_waiting: whether a model's answer is missing, so that what was found is not to be judged.
    """

    message_ids: tuple[str, ...]
    sufficiency: float | None = None
    verdict: str = ""
    is_cut: bool = False
    view: View | None = None
    prompts: tuple[str, ...] = ()
    is_by_rules: bool = False
    is_waiting: bool = False

    @property
    def is_supported(self) -> bool | None:
        """Whether its verdict is that there is an answer; None: it has no verdict."""
        return self.verdict not in _UNANSWERED if self.verdict else None


@dataclass(frozen=True, slots=True)
class Answer:
    """A question, what was found, and the cost in milliseconds: the caller's waiting, and the CPU of the server.

    `cpu_ms` is None where it cannot be measured.
    """

    question: Question
    found: Found
    latency_ms: float
    cpu_ms: float | None


Method = Callable[[Client, Question], Found]

Cost = Callable[[], float | None]
"""Return the CPU time that the server has used so far, in milliseconds."""


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
            return Found(tuple(item.message_id for item in reply.items), is_cut=len(text) < len(question.text))


def semantic(client: Client, question: Question) -> Found:
    """Search for what means the same as the question."""
    text = question.text[:TEXT_MAX]
    reply = client.semantic_search(question.user_id, text, until=question.now, top_k=DEPTH, return_fields=_IDS_ONLY)
    return Found(tuple(item.message.message_id for item in reply.items), is_cut=text != question.text)


def hybrid(client: Client, question: Question) -> Found:
    """Search for what answers the question, by words, meaning and all."""
    text = question.text[:TEXT_MAX]
    reply = client.hybrid_search(question.user_id, text, until=question.now, top_k=DEPTH, return_fields=_IDS_ONLY)
    found = tuple(item.message.message_id for item in reply.items)
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
            tuple(item.message.message_id for item in reply.evidence),
            sufficiency=limits.sufficiency if limits.HasField("sufficiency") else None,
            verdict=pb.Verdict.Name(reply.verdict).removeprefix("VERDICT_"),
            is_cut=text != question.text,
            view=view_of(reply),
            is_by_rules=limits.planner != pb.PLANNER_LLM,
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


def methods(names: Sequence[str]) -> dict[str, Method]:
    """Return the methods of these names."""
    known: tuple[Method, ...] = (lexical, semantic, hybrid, Recall())
    return {name: method for name, method in zip(NAMES, known, strict=True) if name in names}


class MethodMissingError(Exception):
    """The server does not offer the method. The text says why."""


def ask(client: Client, method: Method, question: Question, cost: Cost) -> Answer:
    """Ask one question.

    Raises:
        MethodMissingError: the server does not offer this method.
        NoMemoryError: the question was not answered.
    """
    spent, began = cost(), time.perf_counter()
    try:
        found = method(client, question)
    except NoMemoryError as error:
        if error.code is grpc.StatusCode.UNIMPLEMENTED or error.reason == _NO_EMBEDDER:
            raise MethodMissingError(error.message) from None
        raise
    latency_ms = 1_000 * (time.perf_counter() - began)
    total = cost()
    return Answer(question, found, latency_ms, None if spent is None or total is None else total - spent)


def ask_all(client: Client, method: Method, questions: Iterable[Question], cost: Cost) -> Iterator[Answer]:
    """Ask all questions. The first is asked once more before, so that nothing is started at its expense.

    Raises:
        as `ask`.
    """
    for number, question in enumerate(questions):
        if not number:
            ask(client, method, question, cost)
        yield ask(client, method, question, cost)
