"""Chooses what answers recalls after the first ranking: rules, a planner of another package, or a chat model."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final

from nomemory.recall.planning.base import Planner
from nomemory.server.api.services.recall_agent import AnswerStrategy
from nomemory.server.runtime.extension_point import ExtensionError, ExtensionPoint
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.startup_errors import StartupError, require_extra

if TYPE_CHECKING:
    from nomemory.recall.llm.client import ChatEndpoint

PlannerFactory = Callable[[Settings], Planner]
PLANNERS: Final[ExtensionPoint[PlannerFactory]] = ExtensionPoint("nomemory.planners", ("auto", "rules", "llm"))
"""Planners of other packages. An entry point names what makes the planner of one recall from the settings."""

_NO_MODEL: Final = "NOMEMORY_RECALL_PLANNER=llm needs NOMEMORY_RECALL_MODEL, and usually OPENAI_BASE_URL"


class RecallSettingsError(StartupError):
    """The settings of recalls are incomplete or contradict each other; the text says what to set."""


def choose_planner(settings: Settings, stack: AsyncExitStack) -> AnswerStrategy:
    """Choose by name; what is opened is closed with the stack.

    Raises:
        RecallSettingsError: there is no such planner, or its settings are missing.
        ExtraMissingError: what the model needs is not installed.
    """
    name = settings.recall.planner
    if answers_with_model(settings):
        return AnswerStrategy(model=recall_model(settings, stack))
    if name in {"auto", "rules"}:
        return AnswerStrategy()
    try:
        make = PLANNERS.load(name)
    except ExtensionError as error:
        raise RecallSettingsError(f"NOMEMORY_RECALL_PLANNER: {error}") from None
    return AnswerStrategy(planner=functools.partial(make, settings))


def answers_with_model(settings: Settings) -> bool:
    """Return whether a chat model answers recalls, rather than the rules or a planner of another package."""
    name = settings.recall.planner
    return name == "llm" or (name == "auto" and bool(settings.recall.model))


def recall_model(settings: Settings, stack: AsyncExitStack) -> ChatEndpoint:
    """Connect to the model that the settings name; closed with the stack.

    Raises:
        RecallSettingsError: they name none.
        ExtraMissingError: the client of such endpoints is not installed.
    """
    if not settings.recall.model:
        raise RecallSettingsError(_NO_MODEL)
    require_extra("openai", ("openai",), "NOMEMORY_RECALL_MODEL")
    from nomemory.recall.llm.client import ChatEndpoint, connect  # noqa: PLC0415 - it takes half a second

    key, timeout_s = settings.openai.api_key, settings.recall.model_timeout_s
    client = connect(settings.openai.base_url, key.get_secret_value() if key else None, timeout_s)
    stack.push_async_callback(client.close)
    return ChatEndpoint(client, settings.recall.model, timeout_s=timeout_s)
