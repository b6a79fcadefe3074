"""Let a chat model read the ranked messages, request follow-up searches, and compose a memory view."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Final

from nomemory.recall.errors import RecallError
from nomemory.recall.llm.chat_model import ChatFailedError, ChatModel
from nomemory.recall.llm.json_answer import InvalidAnswerError
from nomemory.recall.llm.prompt import Prompt
from nomemory.recall.model.budget import Budget
from nomemory.recall.model.evidence import RetrievedMessage
from nomemory.recall.model.memory_view import DraftView
from nomemory.recall.model.model_reading import ModelFailure, ModelFailureKind, ModelReading, TokenUsage
from nomemory.recall.model.question import Question
from nomemory.recall.model.step import RecallStep
from nomemory.recall.planning.base import Plan
from nomemory.recall.reading.answer import ModelAnswer, build_answer_schema, parse_answer
from nomemory.recall.reading.prompt import (
    build_first_prompt,
    build_rejection_prompt,
    build_results_prompt,
    build_system_prompt,
    truncate_answer,
)
from nomemory.recall.reading.prompt_context import (
    ContextWindow,
    Line,
    ReadingBudget,
    ReplyContext,
    needs_preceding_message,
    needs_reply,
)
from nomemory.recall.search.session import SearchSession
from nomemory.recall.skills.loader import Skill
from nomemory.recall.tools.definitions import NEIGHBORS

_MAX_INVALID_ANSWERS: Final = 2
"""Number of invalid answers after which the recall answers without the chat model."""
_INVALID_OUTPUT: Final = ModelFailure(ModelFailureKind.INVALID_OUTPUT, "the chat model's output was invalid twice")
_FALLBACK_S: Final = 0.5
"""Time reserved for an answer without the chat model if the model hangs, in seconds."""
_FALLBACK_SHARE: Final = 0.2
"""Maximum share of the remaining time that is reserved."""
_TOP_MESSAGES: Final = 10
"""Number of top-ranked messages that stay ahead of the newest messages on the topic."""


class ReaderFailedError(RecallError):
    """A chat model returned no valid answer. The error message contains no message content.

    Attributes:
        failure: the kind of failure, with a fixed text.
    """

    def __init__(self, failure: ModelFailure) -> None:
        super().__init__(failure.text)
        self.failure = failure


class MessageReader:
    """Lets a chat model read the messages of one recall.

    Args:
        search: the search session, which provides the ranking and runs the follow-up searches.
        budget: limits for messages, follow-up searches and response time.
    """

    name: ClassVar[str] = "llm"

    def __init__(self, model: ChatModel, search: SearchSession, budget: Budget) -> None:
        self._model = model
        self._search = search
        self._budget = budget
        self._invalid_answers = 0
        self._request_count = 0
        self._shown_count = 0
        self._usage: TokenUsage | None = None

    @property
    def model_reading(self) -> ModelReading:
        """The numbers of requests, messages and tokens so far."""
        return ModelReading(self._request_count, self._shown_count, self._usage)

    async def read(self, question: Question, skill: Skill) -> DraftView:
        """Let the model read and search until it composes a memory view; return the view as a draft.

        In the last round, the model cannot search.

        Raises:
            ReaderFailedError: the model returned no valid draft within the time limit.
        """
        reading_budget = ReadingBudget(self._budget.read_messages, self._budget.read_tokens)
        window = ContextWindow(question.analysis.question_text, question.now.tzinfo, reading_budget)
        ranked = await self._read_ranking(question)
        lines: Sequence[Line] = window.add_ranking(ranked, await self._read_replies(ranked[: reading_budget.messages]))
        lookups = self._budget.iterations - 1
        first_prompt = build_first_prompt(question, lines, lookups, self._search.collect_findings().sufficiency)
        prompt = Prompt(build_system_prompt(skill), first_prompt, "memory_view", build_answer_schema())
        while True:
            await self._record_reading(lines, window)
            prompt, answer = await self._ask_until_valid(prompt, window, question, lookups)
            if not answer.calls:
                return answer.draft
            lookups -= 1
            prompt, lines = await self._run_lookups(prompt, answer, window, lookups)

    async def _read_ranking(self, question: Question) -> list[RetrievedMessage]:
        """Return the ranked messages.

        If the question asks for the current state, newer messages on the topic rank higher.
        """
        ranked = [message.message for message in self._search.rank_evidence()]
        if question.is_conversation or not question.analysis.asks_for_latest:
            return ranked
        newest = {item.message_id: item for item in await self._search.read_newest_messages()}
        top_messages = ranked[:_TOP_MESSAGES]
        remaining = [message for message in ranked[_TOP_MESSAGES:] if message.message_id not in newest]
        top_ids = {item.message_id for item in top_messages}
        return [
            *top_messages,
            *(message for message in newest.values() if message.message_id not in top_ids),
            *remaining,
        ]

    async def _read_replies(self, messages: Sequence[RetrievedMessage]) -> ReplyContext:
        """Read the messages that precede short messages, and the replies to short questions."""
        short_messages = {
            message.message_id: message
            for message in messages
            if needs_preceding_message(message) or needs_reply(message)
        }
        preceding, replies = await self._search.read_replies(list(short_messages.values()))
        needed_preceding = {
            reply: item for reply, item in preceding.items() if needs_preceding_message(short_messages[reply])
        }
        return ReplyContext(
            needed_preceding,
            {question_id: item for question_id, item in replies.items() if needs_reply(short_messages[question_id])},
        )

    async def _run_lookups(
        self, prompt: Prompt, answer: ModelAnswer, window: ContextWindow, lookups: int
    ) -> tuple[Prompt, Sequence[Line]]:
        """Run the follow-up searches that the model requested, and add their results to the prompt."""
        previous_steps = len(self._search.steps)
        await self._search.execute_plan(Plan(answer.calls, thought=answer.thought), self._search.iterations + 1)
        full_length_ids = {str(call.arguments.get("message_id")) for call in answer.calls if call.tool == NEIGHBORS}
        steps = self._search.steps[previous_steps:]
        found_messages = [[hit.message for hit in result.items] for result in self._search.round_results]
        replies = await self._read_replies(
            [item for messages in found_messages for item in messages if item.message_id not in window]
        )
        lines = window.add_results(found_messages, full_length_ids, replies)
        left_out = len({item.message_id for messages in found_messages for item in messages} - set(window.labels_by_id))
        results_text = build_results_prompt(steps, window.labels_by_id, lines, left_out, lookups)
        return _append_text(prompt, results_text), lines

    async def _ask_until_valid(
        self, prompt: Prompt, window: ContextWindow, question: Question, lookups: int
    ) -> tuple[Prompt, ModelAnswer]:
        """Ask the model until an answer is valid, and add the answer to the prompt."""
        while True:
            text = await self._ask_model(prompt)
            exchange = replace(prompt, follow_up_turns=(*prompt.follow_up_turns, (truncate_answer(text), "")))
            try:
                answer = _reject_calls_in_last_round(
                    parse_answer(text, window.resolve_label, question.now.tzinfo), is_last=not lookups
                )
            except InvalidAnswerError as error:
                self._invalid_answers += 1
                if self._invalid_answers >= _MAX_INVALID_ANSWERS:
                    raise ReaderFailedError(_INVALID_OUTPUT) from None
                prompt = _append_text(exchange, build_rejection_prompt(str(error), lookups))
            else:
                return exchange, answer

    async def _ask_model(self, prompt: Prompt) -> str:
        remaining_s = self._search.answer_deadline - time.monotonic()
        timeout_s = min(self._budget.model_s, max(remaining_s - _FALLBACK_S, remaining_s * (1 - _FALLBACK_SHARE)))
        self._request_count += 1
        started_at = time.monotonic()
        try:
            answer = await self._model.ask(prompt, timeout_s)
        except ChatFailedError as error:
            raise ReaderFailedError(error.failure) from None
        finally:
            self._search.extend_deadline(time.monotonic() - started_at)
        if answer.usage is not None:
            self._usage = answer.usage + (self._usage or TokenUsage())
        return answer.text

    async def _record_reading(self, lines: Sequence[Line], window: ContextWindow) -> None:
        self._shown_count = len(window)
        ids = tuple(window.resolve_label(str(line["id"])) for line in lines)
        thought = f"the model reads {len(lines)} messages"
        await self._search.record_step(
            RecallStep(self._search.iterations, thought, hit_count=len(lines), message_ids=ids)
        )


def _reject_calls_in_last_round(answer: ModelAnswer, *, is_last: bool) -> ModelAnswer:
    if answer.calls and is_last:
        raise InvalidAnswerError("Nothing can be looked up any more.")
    return answer


def _append_text(prompt: Prompt, outcome: str) -> Prompt:
    """Append a text to the last turn of a prompt."""
    *previous_turns, (answer, _) = prompt.follow_up_turns
    return replace(prompt, follow_up_turns=(*previous_turns, (answer, outcome)))
