"""The golden scenario (`scripts/golden`), adapted to a running server and one caller.

Users get random ids, and embeddings are padded to the dimension of the server. The run skips steps that require several
callers, an otherwise empty server, or a server without an embedder.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Iterator, Mapping
from itertools import cycle
from typing import Any, Final

import httpx

from nomemory.client import Client
from proofs.conformance.callers import ServerConnection, is_http_url
from proofs.conformance.client_runners import SCENARIO
from proofs.conformance.conformance_run import CheckSkippedError, ConformanceCheck, ConformanceRun
from proofs.conformance.expectation import find_outcome_differences
from proofs.conformance.http_player import make_call as replies_over_http
from proofs.conformance.play import ScenarioPlayer
from proofs.conformance.python_player import call_and_convert

_SERVICE: Final = "service"
_CALLER_ERRORS: Final = ("OTHER_USER", "SCOPE_MISSING", "CREDENTIALS_MISSING", "CREDENTIALS_INVALID", "USER_NOT_BOUND")
_SERVER_WIDE_CALLS: Final = ("GetServerInfo", "ListUsers", "GetIndexStatus")
_SEMANTIC_CALLS: Final = ("SemanticSearch", "HybridSearch", "Recall", "StreamRecall", "BuildContext")
_DIMENSION: Final = 4
"""Dimension of the embeddings in the scenario."""

Json = Mapping[str, Any]


class _RoundRobinPlayer(ScenarioPlayer):
    """A player that rotates over all addresses, with the Python client or over HTTP."""

    def __init__(self, connection: ServerConnection) -> None:
        super().__init__()
        self._turns = cycle([_make_caller(connection, target) for target in connection.targets])

    def call(self, step: Json, request: Any) -> list[object]:  # noqa: ANN401 - JSON
        return next(self._turns)(step, request)


def _make_caller(connection: ServerConnection, target: str) -> Callable[[Json, Any], list[object]]:
    if is_http_url(target):
        trusted = ssl.create_default_context(cafile=connection.authority)
        http = httpx.Client(base_url=target, verify=trusted, headers=dict(connection.metadata), timeout=60)
        return lambda step, request: list(replies_over_http(http, step, request))
    client = Client(target, token=connection.token or None, tls_ca=connection.authority)
    return lambda step, request: call_and_convert(client, step, request)


class Scenario:
    """The steps of the scenario in order; later steps depend on earlier steps."""

    def __init__(self) -> None:
        self._play: _RoundRobinPlayer | None = None
        self._names: dict[str, str] = {}

    def build_checks(self) -> Iterator[ConformanceCheck]:
        """Yield a check for each step of the scenario."""
        for step in json.loads(SCENARIO.read_text(encoding="utf-8"))["steps"]:
            yield ConformanceCheck(f"scenario: {step['name']}", lambda run, step=step: self._check_step(run, step))  # type: ignore[misc]

    def _check_step(self, run: ConformanceRun, step: Json) -> Iterator[str]:
        if reason := _find_skip_reason(run, step):
            raise CheckSkippedError(reason)
        self._play = self._play or _RoundRobinPlayer(run.connection)
        adapted = self._adapt_step(run, step)
        yield from find_outcome_differences(adapted, self._play.execute(adapted))

    def _adapt_step(self, run: ConformanceRun, step: Json) -> Json:
        """Adapt a step to the service caller, to the users of this run, and to the dimension of the server."""
        adapted: dict[str, Any] = {key: self._rename_users(run, value) for key, value in step.items()}
        if step["as"] not in (_SERVICE, "reader"):
            adapted["for"] = step["as"]
        if "for" in adapted:
            adapted["for"] = self._build_run_user_id(run, adapted["for"])
        return adapted

    def _rename_users(self, run: ConformanceRun, value: Any) -> Any:  # noqa: ANN401 - JSON
        if isinstance(value, list):
            is_vector = len(value) == _DIMENSION and all(isinstance(item, int | float) for item in value)
            padding = [0] * (run.info.embedding_dimension - _DIMENSION) if is_vector else []
            return [*(self._rename_users(run, item) for item in value), *padding]
        if not isinstance(value, dict):
            return value
        return {
            key: self._build_run_user_id(run, item) if key == "userId" and item else self._rename_users(run, item)
            for key, item in value.items()
        }

    def _build_run_user_id(self, run: ConformanceRun, name: str) -> str:
        if name not in self._names:
            self._names[name] = run.create_user(name)
        return self._names[name]


def _find_skip_reason(run: ConformanceRun, step: Json) -> str:
    """Return the reason why a step is skipped; empty if the step is not skipped."""
    reason = step.get("refused", {}).get("reason", "").removeprefix("ERROR_REASON_")
    if step["call"] in _SERVER_WIDE_CALLS:
        return "its reply depends on other users of the server"
    if reason in _CALLER_ERRORS:
        return "it requires several callers"
    if step["call"] in _SEMANTIC_CALLS and run.info.embedding_model and reason != "SKILL_NOT_FOUND":
        return "it requires a server without an embedder"
    return ""
