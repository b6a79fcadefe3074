"""Messages of a project's earlier sessions that are relevant to a prompt, or that state rules for a new session."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import UTC
from typing import Any, Final

from nomemory.agents.transcript_sync import HookEvent
from nomemory.client.aio import AsyncClient
from nomemory.client.messages import FilterOptions, RoleName, to_role_name
from nomemory.client.prompt_block import PromptBlock, RecalledMessage
from nomemory.client.prompt_passages import count_tokens
from nomemory.importing.transcripts import build_turn_metadata
from nomemory.server.search.hybrid.term_scores import compute_idf

_Message = Any
"""A `nomemory.v1.ChatMessage`."""
_Item = Any
"""A `nomemory.v1.HybridItem`."""

PROMPT_EVENT: Final = "UserPromptSubmit"
"""Name of the event that contains a prompt."""
_MAX_PROMPT_CHARS: Final = 32_000
_TOP_K: Final = 20
_PROMPT_TOKENS: Final = 1_200
"""Maximum size of the block for a prompt, in tokens."""
_MAX_FOR_ORDER: Final = 5
"""Maximum number of messages for a prompt that asks no question."""
MIN_MATCH: Final = 0.7
"""Minimum lexical score of the best message of the user for a prompt, as a share of a reference score.

The reference is the score of one word that occurs in a single message. For a prompt that gives an instruction, the
lexical score finds relevant messages more reliably than the cosine and the sufficiency: any two instructions are
similar, so cosines are high even if no message is relevant (docs/coding-agents.md has the measurements).
"""
MIN_SUFFICIENCY: Final = 0.3
"""Minimum sufficiency for a prompt that ends with a question mark, if the lexical score is too low."""
_QUESTION_MARKS: Final = ("?", "？")
_CLOSING_QUOTES: Final = "\"'”’」』"
"""`opencode run` puts a prompt in quotes."""
_MIN_REPLY_TOKENS: Final = 10
"""Minimum length of an agent's message. Shorter messages are status lines, such as "Done."."""

_RULES_TOP_K: Final = 100
_RULES_TOKENS: Final = 600
"""Maximum size of the block of rules, in tokens. The introduction of the block has about 200 tokens."""
_RULES_QUESTION: Final = "Which rules must be followed in this project, 这个项目有什么规矩，一律用什么，不要用什么？"
"""The question that finds rules. It is a single sentence, because hybrid search embeds each sentence separately."""
MIN_RULE_COSINE: Final = 0.635
"""Minimum cosine of a rule to the question, for the local model."""
_RULES_HEADING: Final = (
    "What the user said in earlier sessions about how to work on this project. It applies unless the user now says "
    "otherwise."
)
MIN_SHARED_TERMS: Final = 0.4
"""Minimum share of common words at which the later of two rules supersedes the earlier one."""


class ProjectMemory:
    """Searches a user's messages of one project, without those of the current session."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def search_related_messages(self, prompt: str, event: HookEvent) -> str:
        """Return the messages that are relevant to a prompt, as a prompt block; empty if there are none.

        If the prompt is a question, the result may include replies of the agent. If the prompt is not a question, the
        result contains only messages of the user.

        Raises:
            NoMemoryError: the search failed.
        """
        prompt = prompt[:_MAX_PROMPT_CHARS]
        is_question = prompt.rstrip().rstrip(_CLOSING_QUOTES).endswith(_QUESTION_MARKS)
        result, total = await asyncio.gather(
            self._client.hybrid_search(
                event.user,
                prompt,
                top_k=_TOP_K,
                explain=True,
                **_filter_other_sessions(event, role=None if is_question else "user"),
            ),
            self._client.count_messages(event.user),
        )
        by_user = [
            item for item in result.items if _get_role_name(item.message) == "user" and not item.message.retracted_by
        ]
        match = max((item.explanation.lexical_score for item in by_user), default=0.0)
        bears = match >= MIN_MATCH * compute_idf(1, total) ** 2
        if not bears and not (is_question and result.sufficiency >= MIN_SUFFICIENCY):
            return ""
        messages = [item.message for item in (result.items if is_question else by_user[:_MAX_FOR_ORDER])]
        recalled = _to_recalled_messages(message for message in messages if _is_informative(message))
        block = PromptBlock(recalled, question=prompt, is_index_lagging=result.index_lagging)
        return block.render(_PROMPT_TOKENS) if recalled else ""

    async def search_rules(self, event: HookEvent) -> str | None:
        """Return the rules that the user stated for the project, as a prompt block.

        A rule is a message with a high semantic similarity to a fixed question that asks for rules.

        Returns:
            The prompt block, empty if there are no rules; None if semantic search is unavailable.

        Raises:
            NoMemoryError: the search failed.
        """
        scope = _filter_other_sessions(event, role="user")
        if not scope["metadata"]:
            return ""
        result = await self._client.hybrid_search(
            event.user, _RULES_QUESTION, top_k=_RULES_TOP_K, explain=True, include_relations=True, **scope
        )
        if result.semantic_unavailable:
            return None
        rules = {
            item.message.message_id: item
            for item in result.items
            if item.explanation.semantic_score >= MIN_RULE_COSINE and not item.message.retracted_by
        }
        for relation in result.relations:
            if relation.shared_terms >= MIN_SHARED_TERMS and relation.later_message_id in rules:
                rules.pop(relation.earlier_message_id, None)
        if not rules:
            return ""
        best_first = sorted(rules.values(), key=lambda item: -item.explanation.semantic_score)
        recalled = _to_recalled_messages(item.message for item in best_first)
        block = PromptBlock(recalled, is_index_lagging=result.index_lagging).render(_RULES_TOKENS)
        return f"{_RULES_HEADING}\n{block}"


def _filter_other_sessions(event: HookEvent, role: RoleName | None) -> FilterOptions:
    """Return the filter for messages of the project that are not in the current session."""
    project = build_turn_metadata(event.agent, event.directory).get("project")
    return {
        "role": role,
        "metadata": {"project": project} if project else None,
        "exclude_conversation_ids": [event.session] if event.session else None,
    }


def _is_informative(message: _Message) -> bool:
    """Return whether a message was written by the user, or is a reply of the agent that is not a status line."""
    role = _get_role_name(message)
    return role == "user" or (role == "assistant" and count_tokens(message.content) >= _MIN_REPLY_TOKENS)


def _get_role_name(message: _Message) -> str:
    return to_role_name(message.role)


def _to_recalled_messages(messages: Iterable[_Message]) -> list[RecalledMessage]:
    return [
        RecalledMessage(
            message.message_id,
            message.ts.ToDatetime(tzinfo=UTC),
            message.name or to_role_name(message.role),
            message.content,
            retracted_by=message.retracted_by,
        )
        for message in messages
    ]
