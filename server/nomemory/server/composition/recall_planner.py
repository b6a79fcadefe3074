"""Chooses who goes on from the ranking of a recall, as the settings ask: rules, a planner, or a chat model."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Final

from nomemory.recall.planning.base import Planner
from nomemory.server.extension_point import ExtensionError, ExtensionPoint
from nomemory.server.rpc.recall_host import AnsweredBy
from nomemory.server.settings import Settings

PlannerFactory = Callable[[Settings], Planner]

PLANNERS: Final[ExtensionPoint[PlannerFactory]] = ExtensionPoint("nomemory.planners", ("auto", "rules", "llm"))
"""Planners of other packages. An entry point names what makes the planner of one recall from the settings."""


class RecallSettingsError(ValueError):
    """The settings ask for a planner that there cannot be; the text says what to set."""


def choose_planner(settings: Settings, stack: AsyncExitStack) -> AnsweredBy:
    """Choose by name; what is opened is closed with the stack.

    Raises:
        RecallSettingsError: there is no such planner, or its settings are missing.
    """
    name = settings.recall.planner
    if answers_with_model(settings):
        return _model(settings, stack)
    if name in {"auto", "rules"}:
        return AnsweredBy()
    try:
        make = PLANNERS.load(name)
    except ExtensionError as error:
        raise RecallSettingsError(f"NOMEMORY_RECALL_PLANNER: {error}") from None
    return AnsweredBy(planner=functools.partial(make, settings))


def answers_with_model(settings: Settings) -> bool:
    """Return whether a chat model answers recalls, rather than the rules or a planner of another package."""
    name = settings.recall.planner
    return name == "llm" or (name == "auto" and bool(settings.recall.model))


def _model(settings: Settings, stack: AsyncExitStack) -> AnsweredBy:
    if not settings.recall.model:
        raise RecallSettingsError(
            "NOMEMORY_RECALL_PLANNER=llm needs NOMEMORY_RECALL_MODEL, and usually OPENAI_BASE_URL"
        )
    from nomemory.server.composition.recall_model import recall_model  # noqa: PLC0415 - it takes half a second

    return AnsweredBy(model=recall_model(settings, stack))
