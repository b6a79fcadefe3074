"""A planner that searches once, for the question as it was asked."""

from nomemory.recall.planning.base import Plan, Situation, ToolCall
from nomemory.recall.tools.definitions import HYBRID_SEARCH
from nomemory.server.runtime.settings import Settings


class OneSearch:
    """Search once and stop."""

    name = "one-search"

    def __init__(self, settings: Settings) -> None:
        self._top_k = settings.recall.evidence_messages

    async def plan(self, situation: Situation) -> Plan:
        """Decide what to do next."""
        if situation.steps:
            return Plan(stop=True, thought="one search is all I do")
        search = ToolCall(HYBRID_SEARCH, {"query_text": situation.question.text, "top_k": self._top_k})
        return Plan((search,), thought="the question as it was asked")
