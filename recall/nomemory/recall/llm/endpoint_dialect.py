"""The subset of the chat completions API that an endpoint supports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum

from openai import Omit, omit
from openai.types.shared_params import ResponseFormatJSONObject, ResponseFormatJSONSchema


class AnswerFormat(Enum):
    """The JSON output formats, strictest first."""

    SCHEMA = "json_schema"
    OBJECT = "json_object"
    PLAIN = "plain"


_LOOSER = {AnswerFormat.SCHEMA: AnswerFormat.OBJECT, AnswerFormat.OBJECT: AnswerFormat.PLAIN}


@dataclass(frozen=True, slots=True)
class Dialect:
    """The supported request parameters other than the messages.

    Attributes:
        answer_format: the JSON output format.
        temperature: whether to set the temperature to 0; some reasoning models reject this parameter.
        completion_tokens: whether to use `max_completion_tokens` instead of `max_tokens`.
    """

    answer_format: AnswerFormat = AnswerFormat.SCHEMA
    temperature: bool = True
    completion_tokens: bool = False

    def simpler(self, refused: str | None) -> Dialect | None:
        """Return the next simpler dialect after a rejected parameter or format; None if there is none."""
        if refused == "temperature" and self.temperature:
            return replace(self, temperature=False)
        if refused == "max_tokens" and not self.completion_tokens:
            return replace(self, completion_tokens=True)
        looser = _LOOSER.get(self.answer_format)
        return replace(self, answer_format=looser) if looser else None

    def response_format(
        self, name: str, schema: Mapping[str, object]
    ) -> ResponseFormatJSONSchema | ResponseFormatJSONObject | Omit:
        """Return the `response_format` parameter for an object with the given schema."""
        if self.answer_format is AnswerFormat.SCHEMA:
            return {"type": "json_schema", "json_schema": {"name": name, "schema": dict(schema)}}
        if self.answer_format is AnswerFormat.OBJECT:
            return {"type": "json_object"}
        return omit
