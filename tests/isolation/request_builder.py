"""Requests of any RPC, filled by field name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

Values = Mapping[str, Any]
"""Values of fields by name, at any depth; `...` fills the message inside."""


def filled(request_type: type[Message], values: Values) -> Message:
    """Return a request with a value for each field whose name has one."""
    request = request_type()
    for field in request.DESCRIPTOR.fields:
        is_taken = field.containing_oneof and request.WhichOneof(field.containing_oneof.name)
        if field.name in values and not is_taken:
            _fill(request, field, values)
    return request


def _fill(request: Message, field: Any, values: Values) -> None:  # noqa: ANN401 - either kind of descriptor
    value = values[field.name]
    if field.message_type is not None:
        inner = filled(GetMessageClass(field.message_type), values) if value is ... else value
        if field.is_repeated:
            getattr(request, field.name).append(inner)
        else:
            getattr(request, field.name).CopyFrom(inner)
    elif field.is_repeated:
        getattr(request, field.name).extend(value)
    elif isinstance(value, int | str):
        setattr(request, field.name, value)
