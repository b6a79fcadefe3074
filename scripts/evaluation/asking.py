"""Retrieval methods of a server, and the result and cost of each question."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import grpc

from evaluation.labeled_file import Question
from evaluation.metrics import DEPTH
from evaluation.recorded_endpoint import RecordedEndpoint
from evaluation.view import ViewCitations, read_view
from nomemory.client.errors import NoMemoryError
from nomemory.client.sync import Client
from nomemory.v1 import recall_service_pb2 as pb

TEXT_MAX: Final = 2_000
"""Maximum length of a question in characters, as in the API definition."""

HYBRID: Final = "HybridSearch"
RECALL: Final = "Recall"
NAMES: Final = ("LexicalSearch", "SemanticSearch", HYBRID, RECALL)
"""Names of the methods in the results, cheapest first."""

_TOO_COMPLEX: Final = "ERROR_REASON_QUERY_TOO_COMPLEX"
_IDS_ONLY: Final = ("message_id",)
_NO_EMBEDDER: Final = "ERROR_REASON_EMBEDDER_DISABLED"
_UNANSWERED: Final = frozenset({"INSUFFICIENT", "PENDING"})


@dataclass(frozen=True, slots=True)
class MethodResult:
    """The result of a retrieval method for one question.

    Attributes:
        message_ids: ids of the returned messages, best first, unique.
        sufficiency: probability that the messages answer the question; None if the method does not estimate it.
        verdict: the recall verdict without the enum prefix; empty if the method returns no verdict.
        is_truncated: whether the question was truncated to the maximum length.
        view: the memory view; None if the method composes no view.
        prompts: the prompts that were sent to the model, if they were recorded.
        used_rules: whether the rule-based planner replaced the model.
        lacks_model_answer: whether a recorded model answer is missing, in which case the result is not evaluated.
    """

    message_ids: tuple[str, ...]
    sufficiency: float | None = None
    verdict: str = ""
    is_truncated: bool = False
    view: ViewCitations | None = None
    prompts: tuple[str, ...] = ()
    used_rules: bool = False
    lacks_model_answer: bool = False

    @property
    def is_supported(self) -> bool | None:
        """Whether the verdict asserts an answer; None if the method returned no verdict."""
        return self.verdict not in _UNANSWERED if self.verdict else None


@dataclass(frozen=True, slots=True)
class Answer:
    """A question with its result and cost.

    Attributes:
        latency_ms: latency at the client in milliseconds.
        cpu_ms: CPU time of the server in milliseconds; None if it cannot be measured.
    """

    question: Question
    result: MethodResult
    latency_ms: float
    cpu_ms: float | None


Method = Callable[[Client, Question], MethodResult]

Cost = Callable[[], float | None]
"""Function that returns the total CPU time of the server in milliseconds; None if it cannot be measured."""


def ask_lexical(client: Client, question: Question) -> MethodResult:
    """Run a lexical search for the question; shorten a question that is too complex until the server accepts it."""
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
            return MethodResult(
                tuple(item.message_id for item in reply.items), is_truncated=len(text) < len(question.text)
            )


def ask_semantic(client: Client, question: Question) -> MethodResult:
    """Run a semantic search for the question."""
    text = question.text[:TEXT_MAX]
    reply = client.semantic_search(question.user_id, text, until=question.now, top_k=DEPTH, return_fields=_IDS_ONLY)
    return MethodResult(tuple(item.message.message_id for item in reply.items), is_truncated=text != question.text)


def ask_hybrid(client: Client, question: Question) -> MethodResult:
    """Run a hybrid search for the question."""
    text = question.text[:TEXT_MAX]
    reply = client.hybrid_search(question.user_id, text, until=question.now, top_k=DEPTH, return_fields=_IDS_ONLY)
    message_ids = tuple(item.message.message_id for item in reply.items)
    return MethodResult(message_ids, sufficiency=reply.sufficiency, is_truncated=text != question.text)


@dataclass(frozen=True, slots=True)
class RecallMethod:
    """A retrieval method that runs a recall.

    Args:
        skill: name of the recall skill; empty: the server's default.
    """

    skill: str = ""

    def __call__(self, client: Client, question: Question) -> MethodResult:
        """Run a recall; the message ids of the result are those of the evidence."""
        text = question.text[:TEXT_MAX]
        reply = client.recall(text, user_id=question.user_id, now=question.now, skill=self.skill)
        limits = reply.limits
        return MethodResult(
            tuple(item.message.message_id for item in reply.evidence),
            sufficiency=limits.sufficiency if limits.HasField("sufficiency") else None,
            verdict=pb.Verdict.Name(reply.verdict).removeprefix("VERDICT_"),
            is_truncated=text != question.text,
            view=read_view(reply),
            used_rules=limits.planner != pb.PLANNER_LLM,
        )


@dataclass(frozen=True, slots=True)
class RecordedRecallMethod:
    """A recall method that replays recorded answers of the chat model.

    Args:
        endpoint: the model endpoint that the server uses. No other client may call the endpoint concurrently.
    """

    endpoint: RecordedEndpoint

    def __call__(self, client: Client, question: Question) -> MethodResult:
        """Run a recall, and add the prompts that the endpoint recorded to its result."""
        self.endpoint.start_question()
        result = RecallMethod()(client, question)
        return replace(result, prompts=tuple(self.endpoint.prompts), lacks_model_answer=self.endpoint.lacks_answer)


def select_methods(names: Sequence[str]) -> dict[str, Method]:
    """Return the methods with the given names."""
    available: tuple[Method, ...] = (ask_lexical, ask_semantic, ask_hybrid, RecallMethod())
    return {name: method for name, method in zip(NAMES, available, strict=True) if name in names}


class UnsupportedMethodError(Exception):
    """Raised if the server does not support a retrieval method; the text states the reason."""


def ask_question(client: Client, method: Method, question: Question, cost: Cost) -> Answer:
    """Ask one question and measure its cost.

    Raises:
        UnsupportedMethodError: the server does not support this method.
        NoMemoryError: the call failed.
    """
    cpu_before, began = cost(), time.perf_counter()
    try:
        result = method(client, question)
    except NoMemoryError as error:
        if error.code is grpc.StatusCode.UNIMPLEMENTED or error.reason == _NO_EMBEDDER:
            raise UnsupportedMethodError(error.message) from None
        raise
    latency_ms = 1_000 * (time.perf_counter() - began)
    cpu_after = cost()
    cpu_ms = None if cpu_before is None or cpu_after is None else cpu_after - cpu_before
    return Answer(question, result, latency_ms, cpu_ms)


def ask_all(client: Client, method: Method, questions: Iterable[Question], cost: Cost) -> Iterator[Answer]:
    """Ask all questions, after one warm-up call with the first question.

    Raises:
        UnsupportedMethodError, NoMemoryError: as in `ask_question`.
    """
    for number, question in enumerate(questions):
        if not number:
            ask_question(client, method, question, cost)
        yield ask_question(client, method, question, cost)
