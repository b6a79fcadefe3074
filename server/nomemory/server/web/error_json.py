"""Errors as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from nomemory.server.web.encoding import as_json
from nomemory.server.web.errors import ErrorStatus


def error_json(error: ErrorStatus) -> dict[str, object]:
    """Return an error as the dialect of the annotations has it."""
    details = [
        {"@type": f"type.googleapis.com/{one.DESCRIPTOR.full_name}", **cast("Mapping[str, Any]", as_json(one))}
        for one in error.details
    ]
    return {"error": {"code": error.code, "message": error.message, "details": details}}
