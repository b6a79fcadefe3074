"""Request parameters that differ between the endpoints of the chat completions API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum

from openai import Omit, omit
from openai.types.shared_params import ResponseFormatJSONObject, ResponseFormatJSONSchema


class AnswerFormat(Enum):
    """Ways to request a JSON answer, strictest first."""

    SCHEMA = "json_schema"
    OBJECT = "json_object"
    PLAIN = "plain"


_NEXT_LOOSER_FORMAT = {AnswerFormat.SCHEMA: AnswerFormat.OBJECT, AnswerFormat.OBJECT: AnswerFormat.PLAIN}


@dataclass(frozen=True, slots=True)
class EndpointDialect:
    """Request parameters that an endpoint supports, apart from the messages.

    Attributes:
        sets_temperature: whether requests set the temperature to 0; some reasoning models reject this parameter.
        uses_max_completion_tokens: whether requests set `max_completion_tokens` instead of `max_tokens`.
    """

    answer_format: AnswerFormat = AnswerFormat.SCHEMA
    sets_temperature: bool = True
    uses_max_completion_tokens: bool = False

    def simplify(self, rejected_parameter: str | None) -> EndpointDialect | None:
        """Return a dialect without the parameter that the endpoint rejected; None if no simpler dialect exists."""
        if rejected_parameter == "temperature" and self.sets_temperature:
            return replace(self, sets_temperature=False)
        if rejected_parameter == "max_tokens" and not self.uses_max_completion_tokens:
            return replace(self, uses_max_completion_tokens=True)
        next_format = _NEXT_LOOSER_FORMAT.get(self.answer_format)
        return replace(self, answer_format=next_format) if next_format else None

    def build_response_format(
        self, name: str, schema: Mapping[str, object]
    ) -> ResponseFormatJSONSchema | ResponseFormatJSONObject | Omit:
        """Return the parameter `response_format` that requests an object with the given schema."""
        if self.answer_format is AnswerFormat.SCHEMA:
            return {"type": "json_schema", "json_schema": {"name": name, "schema": dict(schema)}}
        if self.answer_format is AnswerFormat.OBJECT:
            return {"type": "json_object"}
        return omit
