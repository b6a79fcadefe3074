"""Example requests of the OpenAPI document. The example requests of read methods match messages of the sample data."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import orjson
from google.protobuf.descriptor import MethodDescriptor

Json = dict[str, Any]
RECALL_USER: Final = "sam"
"""The user of the example recalls."""
_EXAMPLES: Final = Path(__file__).with_name("examples.json")


@cache
def _load_examples() -> Mapping[str, Json]:
    examples: dict[str, Json] = orjson.loads(_EXAMPLES.read_bytes())
    return examples


def get_example_request(method: MethodDescriptor) -> Json:
    """Return the example request of a method as JSON; empty if the method has no example."""
    return _load_examples().get(method.name, {})


def get_example_parameter(method: MethodDescriptor, json_path: str) -> Json:
    """Return the OpenAPI `example` of a parameter, or an empty object if the example request does not contain it.

    `json_path` contains the JSON names of the nested fields, such as `filter.timeRange.since`.
    """
    value: Any = get_example_request(method)
    for name in json_path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return {} if value is None else {"example": value}
