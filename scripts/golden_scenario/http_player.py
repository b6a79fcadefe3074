"""Plays the golden scenario over HTTP: `python -m golden_scenario.http_player SCENARIO SERVER WRITTEN`."""

from __future__ import annotations

import ssl
from typing import Any

import httpx

from golden_scenario.http_calls import replies
from golden_scenario.play import Play, play
from golden_scenario.python_arguments import Json


class HttpPlay(Play):
    """Makes the calls of steps over HTTP, each as its caller."""

    def __init__(self, reached: Json) -> None:
        """Take how to reach the server, as `golden_server` tells it."""
        super().__init__()
        trusted = ssl.create_default_context(cafile=reached["authorities"])
        self._clients = {
            caller: httpx.Client(
                base_url=reached["http"],
                verify=trusted,
                headers={"authorization": f"Bearer {bearer}"} if bearer else {},
                timeout=60,
            )
            for caller, bearer in reached["bearers"].items()
        }

    def replies(self, step: Json, request: Any) -> list[object]:  # noqa: ANN401 - JSON
        """Make a step's call."""
        return list(replies(self._clients[step["as"]], step, request))


if __name__ == "__main__":
    play(HttpPlay)
