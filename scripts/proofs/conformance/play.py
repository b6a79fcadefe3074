"""Base class of the scenario players in Python."""

from __future__ import annotations

import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Json = Mapping[str, Any]


class RejectedCallError(Exception):
    """Raised if a call fails; `rejection` has the `code`, `reason`, `message` and `violations` of the error."""

    def __init__(self, refusal: Json) -> None:
        super().__init__(refusal["message"])
        self.rejection = refusal


class ScenarioPlayer(ABC):
    """Executes the steps of the scenario, and stores the values that later steps refer to."""

    def __init__(self) -> None:
        self._kept: dict[str, Any] = {}

    @abstractmethod
    def call(self, step: Json, request: Any) -> list[object]:  # noqa: ANN401 - JSON
        """Return the replies of a step as JSON: one reply, the replies of a stream, or all items of a listing.

        Raises:
            RejectedCallError: the server returned an error.
        """

    def execute(self, step: Json) -> Json:
        """Execute a step and return its outcome."""
        try:
            replies = self.call(step, self._substitute_stored_values(step["request"]))
        except RejectedCallError as error:
            return {"refused": error.rejection}
        self.store_values(step, replies)
        return {"replies": replies}

    def store_values(self, step: Json, replies: list[object]) -> None:
        """Store the reply values that later steps refer to."""
        for name, path in step.get("keep", {}).items():
            self._kept[name] = _find_value(replies[0], path)

    def _substitute_stored_values(self, value: Any) -> Any:  # noqa: ANN401 - JSON
        """Replace each `$name` with the stored value."""
        if isinstance(value, dict):
            return {key: self._substitute_stored_values(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._substitute_stored_values(item) for item in value]
        return self._kept[value[1:]] if isinstance(value, str) and value.startswith("$") else value


def _find_value(value: Any, path: str) -> Any:  # noqa: ANN401 - JSON
    for key in path.split("."):
        value = value[int(key) if isinstance(value, list) else key]
    return value


def run_player(make: Callable[[Json], ScenarioPlayer]) -> None:
    """Execute all steps of a scenario and write their outcomes; read the file names from the command line."""
    scenario, connection, output = map(Path, sys.argv[1:])
    player = make(json.loads(connection.read_text(encoding="utf-8")))
    with output.open("w", encoding="utf-8") as lines:
        for step in json.loads(scenario.read_text(encoding="utf-8"))["steps"]:
            lines.write(json.dumps(player.execute(step), ensure_ascii=False) + "\n")
