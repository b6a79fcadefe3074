"""The scenario that all clients play (`scripts/golden`), as far as one caller can play it at any server.

Its users get names of their own, and its vectors the server's dimension. Left out is what needs several callers, a
server without others, or one without an embedder where this one has one.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Iterator, Mapping
from itertools import cycle
from typing import Any, Final

import httpx

from nomemory.client import Client
from proofs.conformance.callers import Reached, is_http
from proofs.conformance.client_runners import SCENARIO
from proofs.conformance.expectation import faults
from proofs.conformance.http_player import replies as replies_over_http
from proofs.conformance.play import Play
from proofs.conformance.python_player import replies_of
from proofs.conformance.world import Check, LeftOutError, World

_SERVICE: Final = "service"
_OF_CALLERS: Final = ("OTHER_USER", "SCOPE_MISSING", "CREDENTIALS_MISSING", "CREDENTIALS_INVALID", "USER_NOT_BOUND")
_OF_THE_WHOLE_SERVER: Final = ("GetServerInfo", "ListUsers", "GetIndexStatus")
_BY_MEANING: Final = ("SemanticSearch", "HybridSearch", "Recall", "StreamRecall")
_DIMENSION: Final = 4
"""Of the scenario's vectors."""

Json = Mapping[str, Any]


class _AnyPlay(Play):
    """Plays with the Python client or over HTTP, a step at each address by turns."""

    def __init__(self, reached: Reached) -> None:
        super().__init__()
        self._turns = cycle([_caller(reached, target) for target in reached.targets])

    def replies(self, step: Json, request: Any) -> list[object]:  # noqa: ANN401 - JSON
        return next(self._turns)(step, request)


def _caller(reached: Reached, target: str) -> Callable[[Json, Any], list[object]]:
    if is_http(target):
        trusted = ssl.create_default_context(cafile=reached.authority)
        http = httpx.Client(base_url=target, verify=trusted, headers=dict(reached.metadata), timeout=60)
        return lambda step, request: list(replies_over_http(http, step, request))
    client = Client(target, token=reached.token or None, tls_ca=reached.authority)
    return lambda step, request: replies_of(client, step, request)


class Scenario:
    """The steps at one server, in their order: later ones need what earlier ones have written."""

    def __init__(self) -> None:
        self._play: _AnyPlay | None = None
        self._names: dict[str, str] = {}

    def checks(self) -> Iterator[Check]:
        """Yield a check for each step."""
        for step in json.loads(SCENARIO.read_text(encoding="utf-8"))["steps"]:
            yield Check(f"scenario: {step['name']}", lambda world, step=step: self._tried(world, step))  # type: ignore[misc]

    def _tried(self, world: World, step: Json) -> Iterator[str]:
        if why := _why_not(world, step):
            raise LeftOutError(why)
        self._play = self._play or _AnyPlay(world.reached)
        adapted = self._adapted(world, step)
        yield from faults(adapted, self._play.outcome(adapted))

    def _adapted(self, world: World, step: Json) -> Json:
        """Let the service take the step for whoever would, for users of this run, with vectors of the server's size."""
        adapted: dict[str, Any] = {key: self._renamed(world, value) for key, value in step.items()}
        if step["as"] not in (_SERVICE, "reader"):
            adapted["for"] = step["as"]
        if "for" in adapted:
            adapted["for"] = self._name(world, adapted["for"])
        return adapted

    def _renamed(self, world: World, value: Any) -> Any:  # noqa: ANN401 - JSON
        if isinstance(value, list):
            is_vector = len(value) == _DIMENSION and all(isinstance(item, int | float) for item in value)
            padding = [0] * (world.info.embedding_dimension - _DIMENSION) if is_vector else []
            return [*(self._renamed(world, item) for item in value), *padding]
        if not isinstance(value, dict):
            return value
        return {
            key: self._name(world, item) if key == "userId" and item else self._renamed(world, item)
            for key, item in value.items()
        }

    def _name(self, world: World, name: str) -> str:
        if name not in self._names:
            self._names[name] = world.new_user(name)
        return self._names[name]


def _why_not(world: World, step: Json) -> str:
    """Return why a step cannot be taken; empty: it can."""
    reason = step.get("refused", {}).get("reason", "").removeprefix("ERROR_REASON_")
    if step["call"] in _OF_THE_WHOLE_SERVER:
        return "it tells of the whole server"
    if reason in _OF_CALLERS:
        return "it needs several callers"
    if step["call"] in _BY_MEANING and world.info.embedding_model and reason != "SKILL_NOT_FOUND":
        return "it is for a server without an embedder"
    return ""
