"""The chat model of the settings, as `nomemory skill new` uses it."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from nomemory.recall.authoring.scaffold import model_draft
from nomemory.recall.authoring.scaffold.draft import Draft
from nomemory.recall.llm.chat_model import ChatFailedError
from nomemory.recall.llm.json_answer import BadAnswerError
from nomemory.server.composition.recall_model import recall_model
from nomemory.server.settings import Settings


def has_model(settings: Settings) -> bool:
    """Return whether a server with these settings would ask a model."""
    return bool(settings.recall.model) and settings.recall.planner != "rules"


def improved(draft: Draft, settings: Settings) -> tuple[Draft, str]:
    """Let the model improve a draft. Where it does not, give the draft as it is, and why."""
    try:
        return asyncio.run(_improved(draft, settings)), ""
    except ChatFailedError as failure:
        return draft, str(failure)
    except BadAnswerError:
        return draft, "its answer cannot be used"


async def _improved(draft: Draft, settings: Settings) -> Draft:
    async with AsyncExitStack() as stack:
        return await model_draft.improved(draft, recall_model(settings, stack))
