"""Plays the golden scenario with the Python client.

`python -m golden_scenario.python_player SCENARIO SERVER WRITTEN`.
"""

from __future__ import annotations

from typing import Any

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

from golden_scenario.play import CallRefusedError, Play, play
from golden_scenario.python_arguments import Json
from golden_scenario.python_calls import replies
from nomemory.client import Client, NoMemoryError


class PythonPlay(Play):
    """Makes the calls of steps with the client, each as its caller."""

    def __init__(self, reached: Json) -> None:
        """Take how to reach the server, as `golden_server` tells it."""
        super().__init__()
        target, authorities = reached["target"], reached["authorities"]
        self._clients = {
            caller: Client(target, token=bearer or None, tls_ca=authorities)
            for caller, bearer in reached["bearers"].items()
        }

    def replies(self, step: Json, request: Any) -> list[object]:  # noqa: ANN401 - JSON
        """Make a step's call."""
        return replies_of(self._clients[step["as"]], step, request)


def replies_of(client: Client, step: Json, request: Any) -> list[object]:  # noqa: ANN401 - JSON
    """Make a step's call with a client; return its replies as JSON.

    Raises:
        CallRefusedError: it is refused.
    """
    try:
        return [_as_json(reply) for reply in replies(client, step, request)]
    except NoMemoryError as error:
        raise CallRefusedError(_refusal(error)) from None


def _refusal(error: NoMemoryError) -> Json:
    violations = [violation.field for violation in error.violations]
    return {"code": error.code.name, "reason": error.reason, "message": error.message, "violations": violations}


def _as_json(reply: object) -> object:
    return MessageToDict(reply) if isinstance(reply, Message) else reply


if __name__ == "__main__":
    play(PythonPlay)
