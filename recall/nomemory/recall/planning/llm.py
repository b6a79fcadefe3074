"""A planner that asks a language model."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import ClassVar

from nomemory.recall.llm.client import ChatEndpoint
from nomemory.recall.llm.errors import ChatFailedError
from nomemory.recall.llm.json_answer import BadAnswerError
from nomemory.recall.llm.prompt import DEFAULT_BOUNDS, PromptBounds
from nomemory.recall.model.trace import JsonValue
from nomemory.recall.planning.base import Plan, PlannerFailedError, Situation
from nomemory.recall.planning.llm_answer import plan_in
from nomemory.recall.planning.prompt import planner_prompt
from nomemory.recall.tools.identity_guard import without_identity


class LlmPlanner:
    """Implements `Planner`, one call a round. An answer that cannot be used goes back to the model as an observation.

    Args:
        endpoint: where the model is; shared, not closed here.
        bad_answers_max: how many answers that cannot be used one recall puts up with.
        bounds: how long prompts may be.
    """

    name: ClassVar[str] = "llm"

    def __init__(
        self, endpoint: ChatEndpoint, *, bad_answers_max: int = 3, bounds: PromptBounds = DEFAULT_BOUNDS
    ) -> None:
        self._endpoint = endpoint
        self._bad_answers_max = bad_answers_max
        self._bounds = bounds
        self._notes: list[str] = []
        self._made: set[str] = set()
        self._began = time.monotonic()

    async def plan(self, situation: Situation) -> Plan:
        """Ask until an answer can be used.

        Raises:
            PlannerFailedError: the endpoint gives no answer, the time is up, or too many answers were bad.
        """
        while len(self._notes) < self._bad_answers_max:
            answer = await self._answer(situation)
            try:
                return self._accepted(plan_in(answer), situation)
            except BadAnswerError as bad:
                self._notes.append(str(bad))
        raise PlannerFailedError(f"the model gave {len(self._notes)} answers that cannot be used")

    async def _answer(self, situation: Situation) -> str:
        prompt = planner_prompt(situation, self._notes, self._bounds)
        left_s = situation.budget.deadline_s - (time.monotonic() - self._began)
        try:
            return await self._endpoint.ask(prompt, left_s)
        except ChatFailedError as failure:
            raise PlannerFailedError(str(failure)) from None

    def _accepted(self, plan: Plan, situation: Situation) -> Plan:
        if plan.stop and not situation.steps:
            raise BadAnswerError("Nothing was searched yet: search before you stop.")
        for call in plan.calls:
            key = _key(call.tool, call.arguments)
            if key in self._made or key in {_key(step.tool, step.arguments) for step in situation.steps}:
                raise BadAnswerError("This call was made before. Make a different one, or stop.")
            self._made.add(key)
        return plan


def _key(tool: str, arguments: Mapping[str, JsonValue]) -> str:
    """Return a call's identity, without user ids: they would be dropped and make no difference."""
    return json.dumps([tool, without_identity(arguments)[0]], sort_keys=True)
