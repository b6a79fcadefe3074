"""Convert roles between the recall package and the API."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from nomemory.recall.model.question import Role
from nomemory.v1 import message_pb2

ROLE_IN_CONTRACT: Final = MappingProxyType(
    {
        Role.USER: message_pb2.ROLE_USER,
        Role.ASSISTANT: message_pb2.ROLE_ASSISTANT,
        Role.SYSTEM: message_pb2.ROLE_SYSTEM,
        Role.TOOL: message_pb2.ROLE_TOOL,
        Role.ANY: message_pb2.ROLE_UNSPECIFIED,
    }
)
"""The API role of each recall role; `ANY` maps to the unspecified role."""


_ROLE: Final = MappingProxyType({encoded: role for role, encoded in ROLE_IN_CONTRACT.items()})


def decode_role(encoded: message_pb2.Role.ValueType) -> Role:
    """Convert a role of the API. Unspecified and unknown roles become `Role.ANY`."""
    return _ROLE.get(encoded, Role.ANY)
