"""How much of the chat completions API an endpoint supports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum

from openai import Omit, omit
from openai.types.shared_params import ResponseFormatJSONObject, ResponseFormatJSONSchema


class AnswerFormat(Enum):
    """The ways to ask an endpoint for JSON, the strictest first."""

    SCHEMA = "json_schema"
    OBJECT = "json_object"
    PLAIN = "plain"


_LOOSER = {AnswerFormat.SCHEMA: AnswerFormat.OBJECT, AnswerFormat.OBJECT: AnswerFormat.PLAIN}


@dataclass(frozen=True, slots=True)
class Dialect:
    """What is sent besides the messages.

    Attributes:
        answer_format: how JSON is asked for.
        temperature: whether a temperature of 0 may be asked for; some reasoning models refuse any.
        completion_tokens: whether the bound on the answer is called `max_completion_tokens`, not `max_tokens`.
    """

    answer_format: AnswerFormat = AnswerFormat.SCHEMA
    temperature: bool = True
    completion_tokens: bool = False

    def simpler(self, refused: str | None) -> Dialect | None:
        """Return the dialect to try after a refusal, which may name a parameter; None if there is none left."""
        if refused == "temperature" and self.temperature:
            return replace(self, temperature=False)
        if refused == "max_tokens" and not self.completion_tokens:
            return replace(self, completion_tokens=True)
        looser = _LOOSER.get(self.answer_format)
        return replace(self, answer_format=looser) if looser else None

    def response_format(
        self, name: str, schema: Mapping[str, object]
    ) -> ResponseFormatJSONSchema | ResponseFormatJSONObject | Omit:
        """Ask for an object of a schema in this dialect."""
        if self.answer_format is AnswerFormat.SCHEMA:
            return {"type": "json_schema", "json_schema": {"name": name, "schema": dict(schema)}}
        if self.answer_format is AnswerFormat.OBJECT:
            return {"type": "json_object"}
        return omit
