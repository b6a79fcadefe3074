"""Selection of the recall planner: built-in rules, a planner of another package, or a chat model."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final

from nomemory.recall.planning.base import Planner
from nomemory.server.api.services.recall_runner import AnswerStrategy
from nomemory.server.runtime.extension_point import ExtensionError, ExtensionPoint
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.startup_errors import StartupError, require_extra

if TYPE_CHECKING:
    from nomemory.recall.llm.client import ChatEndpoint

PlannerFactory = Callable[[Settings], Planner]
PLANNERS: Final[ExtensionPoint[PlannerFactory]] = ExtensionPoint("nomemory.planners", ("auto", "rules", "llm"))
"""Planners of other packages. An entry point refers to a function that creates the planner of a recall."""

_NO_MODEL: Final = "NOMEMORY_RECALL_PLANNER=llm requires NOMEMORY_RECALL_MODEL, and usually OPENAI_BASE_URL"


class RecallSettingsError(StartupError):
    """The recall settings are incomplete or contradictory."""


def choose_planner(settings: Settings, stack: AsyncExitStack) -> AnswerStrategy:
    """Return the configured planner, whose connections `stack` closes.

    Raises:
        RecallSettingsError: the planner is unknown, or its settings are missing.
        ExtraMissingError: the OpenAI client is not installed.
    """
    name = settings.recall.planner
    if uses_chat_model(settings):
        return AnswerStrategy(model=create_recall_model(settings, stack))
    if name in {"auto", "rules"}:
        return AnswerStrategy()
    try:
        make = PLANNERS.load(name)
    except ExtensionError as error:
        raise RecallSettingsError(f"NOMEMORY_RECALL_PLANNER: {error}") from None
    return AnswerStrategy(planner=functools.partial(make, settings))


def uses_chat_model(settings: Settings) -> bool:
    """Return whether a chat model plans recalls."""
    name = settings.recall.planner
    return name == "llm" or (name == "auto" and bool(settings.recall.model))


def create_recall_model(settings: Settings, stack: AsyncExitStack) -> ChatEndpoint:
    """Return a client of the configured chat model, which `stack` closes.

    Raises:
        RecallSettingsError: no model is configured.
        ExtraMissingError: the OpenAI client is not installed.
    """
    if not settings.recall.model:
        raise RecallSettingsError(_NO_MODEL)
    require_extra("openai", ("openai",), "NOMEMORY_RECALL_MODEL")
    from nomemory.recall.llm.client import ChatEndpoint, create_client  # noqa: PLC0415 - the import takes 0.5 s

    key, timeout_s = settings.openai.api_key, settings.recall.model_timeout_s
    client = create_client(settings.openai.base_url, key.get_secret_value() if key else None, timeout_s)
    stack.push_async_callback(client.close)
    return ChatEndpoint(client, settings.recall.model, timeout_s=timeout_s)
