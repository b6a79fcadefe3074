"""Plays the golden scenario with the Python client: `python -m conformance.python_player SCENARIO SERVER WRITTEN`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

from conformance.python_arguments import Json
from conformance.python_calls import replies
from nomemory.client import Client, NoMemoryError


class Play:
    """Makes the calls of steps, each as its caller, and keeps what later steps need."""

    def __init__(self, reached: Json) -> None:
        """Take how to reach the server, as `golden_server` tells it."""
        target, authorities = reached["target"], reached["authorities"]
        self._clients = {
            caller: Client(target, token=bearer or None, tls_ca=authorities)
            for caller, bearer in reached["bearers"].items()
        }
        self._kept: dict[str, Any] = {}

    def outcome(self, step: Json) -> Json:
        """Take a step; return what came of it."""
        try:
            got = [_as_json(reply) for reply in replies(self._clients[step["as"]], step, self._filled(step["request"]))]
        except NoMemoryError as error:
            return {"refused": _refusal(error)}
        for name, path in step.get("keep", {}).items():
            self._kept[name] = _at(got[0], path)
        return {"replies": got}

    def _filled(self, value: Any) -> Any:  # noqa: ANN401 - JSON
        """Put what was kept in the place of each `$name`."""
        if isinstance(value, dict):
            return {key: self._filled(each) for key, each in value.items()}
        if isinstance(value, list):
            return [self._filled(each) for each in value]
        return self._kept[value[1:]] if isinstance(value, str) and value.startswith("$") else value


def _refusal(error: NoMemoryError) -> Json:
    violations = [violation.field for violation in error.violations]
    return {"code": error.code.name, "reason": error.reason, "message": error.message, "violations": violations}


def _at(value: Any, path: str) -> Any:  # noqa: ANN401 - JSON
    for part in path.split("."):
        value = value[int(part) if isinstance(value, list) else part]
    return value


def _as_json(reply: object) -> object:
    return MessageToDict(reply) if isinstance(reply, Message) else reply


def main() -> None:
    """Play from the first step to the last, and write down what came of each."""
    scenario, reached, written = map(Path, sys.argv[1:])
    play = Play(json.loads(reached.read_text(encoding="utf-8")))
    with written.open("w", encoding="utf-8") as lines:
        for step in json.loads(scenario.read_text(encoding="utf-8"))["steps"]:
            lines.write(json.dumps(play.outcome(step), ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
