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


_NEXT_LOOSER_FORMAT = {AnswerFormat.SCHEMA: AnswerFormat.OBJECT, AnswerFormat.OBJECT: AnswerFormat.PLAIN}


@dataclass(frozen=True, slots=True)
class EndpointDialect:
    """The supported request parameters other than the messages.

    Attributes:
        answer_format: the JSON output format.
        sets_temperature: whether to set the temperature to 0; some reasoning models reject this parameter.
        uses_max_completion_tokens: whether to use `max_completion_tokens` instead of `max_tokens`.
    """

    answer_format: AnswerFormat = AnswerFormat.SCHEMA
    sets_temperature: bool = True
    uses_max_completion_tokens: bool = False

    def next_simpler(self, rejected_parameter: str | None) -> EndpointDialect | None:
        """Return the next simpler dialect after a rejected parameter or format; None if there is none."""
        if rejected_parameter == "temperature" and self.sets_temperature:
            return replace(self, sets_temperature=False)
        if rejected_parameter == "max_tokens" and not self.uses_max_completion_tokens:
            return replace(self, uses_max_completion_tokens=True)
        next_format = _NEXT_LOOSER_FORMAT.get(self.answer_format)
        return replace(self, answer_format=next_format) if next_format else None

    def response_format(
        self, name: str, schema: Mapping[str, object]
    ) -> ResponseFormatJSONSchema | ResponseFormatJSONObject | Omit:
        """Return the `response_format` parameter for an object with the given schema."""
        if self.answer_format is AnswerFormat.SCHEMA:
            return {"type": "json_schema", "json_schema": {"name": name, "schema": dict(schema)}}
        if self.answer_format is AnswerFormat.OBJECT:
            return {"type": "json_object"}
        return omit
