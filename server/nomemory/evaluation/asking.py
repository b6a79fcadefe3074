"""Asks the questions of a set with one method, one after another, and writes down what each cost."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import grpc

from nomemory.client.errors import NoMemoryError
from nomemory.client.sync import Client
from nomemory.evaluation.answer import Answer
from nomemory.evaluation.methods import Method
from nomemory.evaluation.question import Question

Cost = Callable[[], float | None]
"""Return the CPU time that the server has used so far, in milliseconds."""

_NO_EMBEDDER: Final = "ERROR_REASON_EMBEDDER_DISABLED"


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
