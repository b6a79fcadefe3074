"""A planner that adds one semantic search in the user's own messages to the initial ranking."""

from nomemory.recall.planning.base import Plan, PlanningState, ToolCall
from nomemory.recall.tools.definitions import SEMANTIC_SEARCH
from nomemory.server.runtime.settings import Settings


class OneSearch:
    """Searches once and stops."""

    name = "one-search"

    def __init__(self, settings: Settings) -> None:
        self._top_k = settings.recall.evidence_messages

    async def plan(self, state: PlanningState) -> Plan:
        """Search in the first round; stop in the second."""
        if state.iteration > 1:
            return Plan(stop=True, thought="one search is enough")
        call = ToolCall(
            SEMANTIC_SEARCH,
            {"query_text": state.question.query_text, "filter": {"role": "user"}, "top_k": self._top_k},
        )
        return Plan((call,), thought="search the user's own messages")
