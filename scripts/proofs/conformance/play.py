"""Plays the steps of a scenario in Python, whatever makes the calls."""

from __future__ import annotations

import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Json = Mapping[str, Any]


class CallRefusedError(Exception):
    """A call was refused; `refusal` has its `code`, `reason`, `message` and `violations`."""

    def __init__(self, refusal: Json) -> None:
        super().__init__(refusal["message"])
        self.refusal = refusal


class Play(ABC):
    """Makes the calls of steps, and keeps what later steps need."""

    def __init__(self) -> None:
        self._kept: dict[str, Any] = {}

    @abstractmethod
    def replies(self, step: Json, request: Any) -> list[object]:  # noqa: ANN401 - JSON
        """Make a step's call; return its replies as JSON: one, those of a stream, or everything that a listing has.

        Raises:
            CallRefusedError: it is refused.
        """

    def outcome(self, step: Json) -> Json:
        """Take a step; return what came of it."""
        try:
            got = self.replies(step, self._filled(step["request"]))
        except CallRefusedError as error:
            return {"refused": error.refusal}
        self.keep(step, got)
        return {"replies": got}

    def keep(self, step: Json, got: list[object]) -> None:
        """Keep of a step's replies what later steps need."""
        for name, path in step.get("keep", {}).items():
            self._kept[name] = _at(got[0], path)

    def _filled(self, value: Any) -> Any:  # noqa: ANN401 - JSON
        """Put what was kept in the place of each `$name`."""
        if isinstance(value, dict):
            return {key: self._filled(each) for key, each in value.items()}
        if isinstance(value, list):
            return [self._filled(each) for each in value]
        return self._kept[value[1:]] if isinstance(value, str) and value.startswith("$") else value


def _at(value: Any, path: str) -> Any:  # noqa: ANN401 - JSON
    for part in path.split("."):
        value = value[int(part) if isinstance(value, list) else part]
    return value


def play(make: Callable[[Json], Play]) -> None:
    """Play from the first step to the last, and write down what came of each. The arguments are those of a runner."""
    scenario, reached, written = map(Path, sys.argv[1:])
    playing = make(json.loads(reached.read_text(encoding="utf-8")))
    with written.open("w", encoding="utf-8") as lines:
        for step in json.loads(scenario.read_text(encoding="utf-8"))["steps"]:
            lines.write(json.dumps(playing.outcome(step), ensure_ascii=False) + "\n")
