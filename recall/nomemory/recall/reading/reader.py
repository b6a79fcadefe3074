"""Read the ranked messages with a chat model, which composes the view or requests follow-up searches."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Final

from nomemory.recall.errors import RecallError
from nomemory.recall.llm.chat_model import ChatFailedError, ChatModel
from nomemory.recall.llm.json_answer import BadAnswerError
from nomemory.recall.llm.prompt import Prompt
from nomemory.recall.model.budget import Budget
from nomemory.recall.model.evidence import RetrievedMessage
from nomemory.recall.model.memory_view import Draft
from nomemory.recall.model.question import Question
from nomemory.recall.model.search_limits import Reading
from nomemory.recall.model.step import Step
from nomemory.recall.planning.base import Plan
from nomemory.recall.reading.answer import Answer, answer_schema, parse_answer
from nomemory.recall.reading.prompt import first_text, outcome_text, refusal_text, system_text, truncated_answer
from nomemory.recall.reading.prompt_context import ContextWindow, Exchanges, Line, ReadingBudget, is_question, is_short
from nomemory.recall.search.session import SearchSession
from nomemory.recall.skills.loader import Skill
from nomemory.recall.tools.definitions import NEIGHBORS

_MAX_INVALID_ANSWERS: Final = 2
"""Maximum number of invalid answers before the recall falls back to the rules."""
_FALLBACK_S: Final = 0.5
"""Time reserved for the rules in case the model hangs, in seconds."""
_FALLBACK_SHARE: Final = 0.2
"""The reserved time as a share of the time limit, for recalls with a short one."""
_BEFORE_NEWEST: Final = 10
"""Number of ranked messages before the newest messages on the topic."""


class ReaderFailedError(RecallError):
    """The model returned no answer or no valid answer. The message contains no content."""


class Reader:
    """Reads messages with a chat model for one recall.

    Args:
        model: the chat model.
        search: provides the ranking, and runs the follow-up searches.
        budget: limits for messages, follow-up searches and response time.
    """

    name: ClassVar[str] = "llm"

    def __init__(self, model: ChatModel, search: SearchSession, budget: Budget) -> None:
        self._model = model
        self._search = search
        self._budget = budget
        self._invalid_answers = 0
        self._calls = 0
        self._shown = 0

    @property
    def reading(self) -> Reading:
        """The number of requests and messages so far."""
        return Reading(self._calls, self._shown)

    async def read(self, question: Question, skill: Skill) -> Draft:
        """Return the draft of a view. In the last round of the budget, the model must compose one.

        Raises:
            ReaderFailedError: the model returned no valid draft within the time limit.
        """
        reading = ReadingBudget(self._budget.read_messages, self._budget.read_tokens)
        window = ContextWindow(question.analysis.question_text, question.now.tzinfo, reading)
        ranked = await self._ranked(question)
        lines: Sequence[Line] = window.rank(ranked, await self._exchanges(ranked[: reading.messages]))
        lookups = self._budget.iterations - 1
        first = first_text(question, lines, lookups, self._search.findings().sufficiency)
        prompt = Prompt(system_text(skill), first, "memory_view", answer_schema())
        while True:
            await self._record_reading(lines, window)
            prompt, answer = await self._valid_answer(prompt, window, question, lookups)
            if not answer.calls:
                return answer.draft
            lookups -= 1
            prompt, lines = await self._run_lookups(prompt, answer, window, lookups)

    async def _ranked(self, question: Question) -> list[RetrievedMessage]:
        """Return the ranking, with the newest messages on the topic near the top if a value may have changed."""
        ranked = [message.message for message in self._search.ranked()]
        if question.is_conversation or not question.analysis.asks_for_latest:
            return ranked
        newest = {item.message_id: item for item in await self._search.newest_on_topic()}
        first = ranked[:_BEFORE_NEWEST]
        rest = [message for message in ranked[_BEFORE_NEWEST:] if message.message_id not in newest]
        first_ids = {item.message_id for item in first}
        return [*first, *(message for message in newest.values() if message.message_id not in first_ids), *rest]

    async def _exchanges(self, messages: Sequence[RetrievedMessage]) -> Exchanges:
        """Return the messages before short messages, and the replies to questions."""
        short = {message.message_id: message for message in messages if is_short(message) or is_question(message)}
        before, after = await self._search.exchanges(list(short.values()))
        replied_to = {reply: item for reply, item in before.items() if is_short(short[reply])}
        return Exchanges(
            replied_to, {question_id: item for question_id, item in after.items() if is_question(short[question_id])}
        )

    async def _run_lookups(
        self, prompt: Prompt, answer: Answer, window: ContextWindow, lookups: int
    ) -> tuple[Prompt, Sequence[Line]]:
        """Run the follow-up searches of an answer and add their results to the exchange."""
        done = len(self._search.steps)
        await self._search.execute(Plan(answer.calls, thought=answer.thought), self._search.iterations + 1)
        whole = {str(call.arguments.get("message_id")) for call in answer.calls if call.tool == NEIGHBORS}
        steps = self._search.steps[done:]
        brought = [[hit.message for hit in result.items] for result in self._search.round_results]
        exchanges = await self._exchanges(
            [item for messages in brought for item in messages if item.message_id not in window]
        )
        lines = window.add(brought, whole, exchanges)
        outcome = outcome_text(steps, lines, lookups)
        return _with_outcome(prompt, outcome), lines

    async def _valid_answer(
        self, prompt: Prompt, window: ContextWindow, question: Question, lookups: int
    ) -> tuple[Prompt, Answer]:
        """Prompt the model until an answer is valid, and add the answer to the exchange."""
        while True:
            text = await self._ask(prompt)
            exchange = replace(prompt, exchange=(*prompt.exchange, (truncated_answer(text), "")))
            try:
                answer = _checked(parse_answer(text, window.message_id, question.now.tzinfo), is_last=not lookups)
            except BadAnswerError as error:
                self._invalid_answers += 1
                if self._invalid_answers >= _MAX_INVALID_ANSWERS:
                    raise ReaderFailedError(f"the model returned {self._invalid_answers} invalid answers") from None
                prompt = _with_outcome(exchange, refusal_text(str(error), lookups))
            else:
                return exchange, answer

    async def _ask(self, prompt: Prompt) -> str:
        left_s = self._search.answer_by - time.monotonic()
        within_s = min(self._budget.model_s, max(left_s - _FALLBACK_S, left_s * (1 - _FALLBACK_SHARE)))
        self._calls += 1
        began = time.monotonic()
        try:
            return await self._model.ask(prompt, within_s)
        except ChatFailedError as failure:
            raise ReaderFailedError(str(failure)) from None
        finally:
            self._search.extend_deadline(time.monotonic() - began)

    async def _record_reading(self, lines: Sequence[Line], window: ContextWindow) -> None:
        self._shown = len(window)
        ids = tuple(window.message_id(str(line["id"])) for line in lines)
        thought = f"the model reads {len(lines)} messages"
        await self._search.record(Step(self._search.iterations, thought, hits=len(lines), message_ids=ids))


def _checked(answer: Answer, *, is_last: bool) -> Answer:
    if answer.calls and is_last:
        raise BadAnswerError("Nothing can be looked up any more.")
    return answer


def _with_outcome(prompt: Prompt, outcome: str) -> Prompt:
    """Append the results to the last turn of the exchange."""
    *before, (answer, _) = prompt.exchange
    return replace(prompt, exchange=(*before, (answer, outcome)))
