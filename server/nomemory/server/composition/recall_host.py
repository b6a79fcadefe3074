"""Builds a RecallService from the settings, over a stub of a QueryService.

Chooses who goes on from the ranking of a recall, as the settings ask: rules, a planner, or a chat model.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

import grpc

from nomemory.recall.model.budget import Budget
from nomemory.recall.model.sufficiency import EnoughRule
from nomemory.recall.planning.base import Planner
from nomemory.recall.skills import loader as skill_loader
from nomemory.recall.tools.query_stub import QueryStub
from nomemory.server.cannot_start import CannotStartError, need_extra
from nomemory.server.extension_point import ExtensionError, ExtensionPoint
from nomemory.server.listen_address import parse_listen_address
from nomemory.server.metrics.meters import Meters
from nomemory.server.rpc.recall_agent import AnsweredBy, Metadata, RecallHost
from nomemory.server.rpc.recall_service import RecallService
from nomemory.server.rpc.recall_stubs import RemoteQuery
from nomemory.server.settings import Settings
from nomemory.server.vector.active_index import ServingSpace
from nomemory.v1 import query_service_pb2_grpc

if TYPE_CHECKING:
    from nomemory.recall.llm.client import ChatEndpoint

PlannerFactory = Callable[[Settings], Planner]
PLANNERS: Final[ExtensionPoint[PlannerFactory]] = ExtensionPoint("nomemory.planners", ("auto", "rules", "llm"))
"""Planners of other packages. An entry point names what makes the planner of one recall from the settings."""


_NO_MODEL: Final = "NOMEMORY_RECALL_PLANNER=llm needs NOMEMORY_RECALL_MODEL, and usually OPENAI_BASE_URL"


class RecallSettingsError(CannotStartError):
    """The settings ask for a planner that there cannot be; the text says what to set."""


def choose_planner(settings: Settings, stack: AsyncExitStack) -> AnsweredBy:
    """Choose by name; what is opened is closed with the stack.

    Raises:
        RecallSettingsError: there is no such planner, or its settings are missing.
        ExtraMissingError: what the model needs is not installed.
    """
    name = settings.recall.planner
    if answers_with_model(settings):
        return AnsweredBy(model=recall_model(settings, stack))
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


def recall_model(settings: Settings, stack: AsyncExitStack) -> ChatEndpoint:
    """Connect to the model that the settings name; closed with the stack.

    Raises:
        RecallSettingsError: they name none.
        ExtraMissingError: the client of such endpoints is not installed.
    """
    if not settings.recall.model:
        raise RecallSettingsError(_NO_MODEL)
    need_extra("openai", ("openai",), "NOMEMORY_RECALL_MODEL")
    from nomemory.recall.llm.client import ChatEndpoint, connect  # noqa: PLC0415 - it takes half a second

    key, timeout_s = settings.openai.api_key, settings.recall.model_timeout_s
    client = connect(settings.openai.base_url, key.get_secret_value() if key else None, timeout_s)
    stack.push_async_callback(client.close)
    return ChatEndpoint(client, settings.recall.model, timeout_s=timeout_s)


_HERE = Path(skill_loader.__file__)
_SHIPPED_SKILLS = (_HERE.parents[2] / "skills", _HERE.parents[4] / "skills")
"""Where the shipped skills are: in an installed package, and in a checkout."""


def recall_service(
    settings: Settings,
    stub: QueryStub,
    metadata: Metadata,
    stack: AsyncExitStack,
    spaces: ServingSpace | None = None,
    meters: Meters | None = None,
) -> RecallService:
    """Make the service; what it opens is closed with the stack. `spaces` are this server's own vectors.

    Raises:
        RecallSettingsError: the settings contradict each other.
        OSError: the audit file cannot be written.
    """
    answered_by = choose_planner(settings, stack)
    recall = settings.recall
    points = (recall.sufficiency, recall.sufficiency_named, recall.sufficiency_unnamed, recall.sufficiency_words_only)
    host = RecallHost(stub, metadata, answered_by, EnoughRule(*points, recall.quoted))
    return RecallService(host.ask, skill_library(settings), host_budget(settings), settings, spaces, meters or Meters())


def remote_query(settings: Settings, stack: AsyncExitStack) -> tuple[QueryStub, Metadata]:
    """Connect to the QueryService that the settings name, with this process's own key.

    Raises:
        RecallSettingsError: it is on another machine, and the connection would be in the clear.
        ListenAddressError: the target is not of the form HOST:PORT.
    """
    channel = _channel(settings)
    stack.push_async_callback(channel.close)
    key = settings.recall.query_key
    metadata = (("authorization", f"Bearer {key.get_secret_value()}"),) if key else ()
    return RemoteQuery(query_service_pb2_grpc.QueryServiceStub(channel)), metadata


def _channel(settings: Settings) -> grpc.aio.Channel:
    target = settings.recall.query_target
    if settings.recall.query_tls:
        trusted = settings.recall.query_tls_ca
        credentials = grpc.ssl_channel_credentials(trusted.read_bytes() if trusted else None)
        return grpc.aio.secure_channel(target, credentials)
    if not (parse_listen_address(target).is_loopback() or settings.identity.insecure_plaintext):
        raise RecallSettingsError(
            f"refusing to read messages from {target} in the clear: set NOMEMORY_RECALL_QUERY_TLS=true, or "
            "NOMEMORY_INSECURE_PLAINTEXT=true where the network itself is encrypted"
        )
    return grpc.aio.insecure_channel(target)


def skill_folders(settings: Settings) -> list[Path]:
    """Return the folders of skills, the operator's own before the shipped ones."""
    own = [Path(folder) for folder in settings.recall.skills.split(os.pathsep) if folder]
    return own + [folder for folder in _SHIPPED_SKILLS if folder.is_dir()]


def skill_library(settings: Settings) -> skill_loader.SkillLibrary:
    """Return the skills that recalls can be steered by."""
    return skill_loader.SkillLibrary(skill_folders(settings), settings.recall.skill)


def host_budget(settings: Settings) -> Budget:
    """Return what one recall may do at most."""
    return Budget(
        iterations=settings.recall.iterations,
        tool_calls=settings.recall.tool_calls,
        evidence_messages=settings.recall.evidence_messages,
        deadline_s=settings.recall.deadline_s,
        model_s=settings.recall.model_timeout_s,
        read_messages=settings.recall.read_messages if answers_with_model(settings) else 0,
        read_tokens=settings.recall.read_tokens,
        result_items=settings.recall.result_items,
        result_chars=settings.recall.result_chars,
        evidence_chars=settings.recall.evidence_chars,
        neighbors_before=settings.recall.neighbors_before,
        neighbors_after=settings.recall.neighbors_after,
        anchors=settings.recall.anchors,
    )
